case $TARGET in "~/"*) TARGET="$HOME/${TARGET#??}" ;; esac
# Blanks in /proc/mounts are written as octal numbers.
mounted() { awk -v t="$TARGET" '{ gsub(/\\040/, " ", $2); if ($2 == t) s = $1 } END { print s }' /proc/mounts; }
there=$(mounted)
if [ "$there" = "$SOURCE" ]; then exit 0; fi
[ -z "$there" ] || fail "$TARGET is in use already, for $there"
host=${SOURCE%%:*}
# What mount would wait for without a word.
timeout 10 bash -c ': > "/dev/tcp/$0/$1"' "$host" "$PORT" 2> /dev/null ||
  fail "$host does not answer at port $PORT: its security group must allow TCP $PORT from the group of this node, and the network must have a route"
command -v mount.nfs4 > /dev/null || as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq nfs-common
as_root mkdir -p "$TARGET"
as_root mount -t nfs4 -o "$OPTIONS" "$SOURCE" "$TARGET"
[ -z "$MODE" ] || as_root chmod "$MODE" "$TARGET"
