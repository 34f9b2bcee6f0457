# What was put beside the user's own keys is taken away; the rest stays as it is. Where homes are shared, others do the same at once.
key="$HOME/.ssh/wharf_$CLUSTER"
if { read -r public < "$key.pub"; } 2> /dev/null && [ -f "$HOME/.ssh/authorized_keys" ]; then
  without "$HOME/.ssh/authorized_keys" "$public"
fi
if [ -f "$HOME/.ssh/config" ]; then block "$HOME/.ssh/config" "$CLUSTER" ''; fi
rm -f "$key" "$key.pub"
