set -eu
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
fail() { printf '%s\n' "$*" >&2; exit 1; }
# Puts what a filter makes of a file in its place, whole or not at all; owner and mode stay, and a link leads where it led. Nodes may share a home
# and do this at once: each has copies of its own, and one that was overtaken begins anew.
filtered() {
  file=$(readlink -f "$1")
  shift
  copies=$(mktemp -d "$file.XXXXXX")
  trap 'rm -rf "$copies"' EXIT
  trap 'exit 143' HUP INT TERM
  for try in 1 2 3 4 5 6 7 8 9; do
    if filter_once "$@"; then rm -rf "$copies"; return; fi
  done
  fail "$file cannot be changed"
}
filter_once() {
  cp -p "$file" "$copies/old" && cp -p "$copies/old" "$copies/new" || return 1
  "$@" < "$copies/old" > "$copies/new" || return 1
  cmp -s "$copies/old" "$copies/new" && return
  cmp -s "$copies/old" "$file" && mv -f "$copies/new" "$file"
}
# Removes a line from a file.
without() { filtered "$1" env LC_ALL=C LINE="$2" awk '$0 != ENVIRON["LINE"]'; }
# Puts lines between two marks of a file, in the place of those that were there; without any, the marks go as well. A beginning without an end is
# no mark of ours: what follows it is somebody else's.
block() {
  filtered "$1" env LC_ALL=C MARK="# wharf $2" TEXT="$3" awk '
    BEGIN { first = ENVIRON["MARK"] " begin"; last = ENVIRON["MARK"] " end" }
    $0 == first { printf "%s", held; held = $0 "\n"; next }
    held == "" { print; next }
    { held = held $0 "\n" }
    $0 == last { held = "" }
    END { printf "%s", held; if (ENVIRON["TEXT"] != "") print first "\n" ENVIRON["TEXT"] "\n" last }'
}
