case $ARCHIVE in "~/"*) ARCHIVE="$HOME/${ARCHIVE#??}" ;; esac
[ -f "$ARCHIVE" ] || fail "there is no $ARCHIVE; copy it with \`file_mounts\`"
# What was unpacked last, by its contents.
sum=$(sha256sum < "$ARCHIVE")
mark="$PREFIX/.wharf-nccl"
if [ "$(cat "$mark" 2> /dev/null)" = "$sum" ] && ls "$PREFIX"/lib/libnccl.so* > /dev/null 2>&1; then exit 0; fi
as_root mkdir -p "$PREFIX"
as_root tar -xf "$ARCHIVE" --strip-components=1 --no-same-owner -C "$PREFIX"
ls "$PREFIX"/lib/libnccl.so* > /dev/null 2>&1 || fail "$ARCHIVE has no lib/libnccl.so in it"
printf '%s\n' "$PREFIX/lib" | as_root tee /etc/ld.so.conf.d/wharf-nccl.conf > /dev/null
as_root ldconfig
printf '%s\n' "$sum" | as_root tee "$mark" > /dev/null
