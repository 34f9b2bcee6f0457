# The key came with the files; every node has the same one.
umask 077
mkdir -p "$HOME/.ssh"
key="$HOME/.ssh/wharf_$CLUSTER"
[ -s "$key" ] && [ -s "$key.pub" ] || fail "there is no $key: it is copied by \`wharf up\`"
chmod 600 "$key"
touch "$HOME/.ssh/authorized_keys"
read -r public < "$key.pub"
# Its last line may have no end.
grep -qxF "$public" "$HOME/.ssh/authorized_keys" ||
  { [ -z "$(tail -c 1 "$HOME/.ssh/authorized_keys")" ] || echo; printf '%s\n' "$public"; } >> "$HOME/.ssh/authorized_keys"
touch "$HOME/.ssh/config"
block "$HOME/.ssh/config" "$CLUSTER" "Host $NODES
  IdentityFile ~/.ssh/wharf_$CLUSTER
  StrictHostKeyChecking accept-new"
