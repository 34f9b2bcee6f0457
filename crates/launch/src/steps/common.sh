set -eu
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
fail() { printf '%s\n' "$*" >&2; exit 1; }
# Leaves of a file what a filter leaves; the file stays the one it is, with its owner and its mode.
without() {
  file=$1
  shift
  "$@" < "$file" > "$file.wharf" || [ $? = 1 ]
  cmp -s "$file" "$file.wharf" || cat "$file.wharf" > "$file"
  rm -f "$file.wharf"
}
# Puts lines between two marks of a file, in the place of those that were there.
block() {
  touch "$1"
  { sed "/^# wharf $2 begin\$/,/^# wharf $2 end\$/d" "$1"; printf '# wharf %s begin\n%s\n# wharf %s end\n' "$2" "$3" "$2"; } > "$1.wharf"
  if cmp -s "$1" "$1.wharf"; then rm -f "$1.wharf"; else cat "$1.wharf" > "$1"; rm -f "$1.wharf"; fi
}
