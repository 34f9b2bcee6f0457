wanted="$PREFIX/cuda-$VERSION"
[ -d "$wanted" ] || fail "there is no $wanted; there are:" "$(cd "$PREFIX" && ls -d cuda-* 2> /dev/null | tr '\n' ' ')"
[ "$(readlink -f "$PREFIX/cuda")" = "$(readlink -f "$wanted")" ] || as_root ln -sfn "$wanted" "$PREFIX/cuda"
