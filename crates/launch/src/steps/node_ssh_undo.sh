# What was put beside the user's own keys is taken away; the rest stays as it is.
key="$HOME/.ssh/wharf_$CLUSTER"
if [ -s "$key.pub" ] && [ -f "$HOME/.ssh/authorized_keys" ]; then
  read -r public < "$key.pub"
  without "$HOME/.ssh/authorized_keys" grep -vxF "$public"
fi
if [ -f "$HOME/.ssh/config" ]; then
  without "$HOME/.ssh/config" sed "/^# wharf $CLUSTER begin\$/,/^# wharf $CLUSTER end\$/d"
fi
rm -f "$key" "$key.pub"
