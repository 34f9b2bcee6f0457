# The interface that has the node's address, or else the one that leads to the head, or anywhere.
name=$INTERFACE
[ -n "$name" ] || name=$(ip -o addr show to "$ADDRESS" 2> /dev/null | awk '{ print $2; exit }')
[ -n "$name" ] || name=$(ip -o route get "$HEAD" 2> /dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
[ -n "$name" ] || name=$(ip -o route show default | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -n 1)
[ -n "$name" ] || fail 'no interface was found; name it: `network: {interface: eth0}`'
[ -d "/sys/class/net/$name" ] || fail "there is no interface $name; there are:" "$(ls /sys/class/net | tr '\n' ' ')"
# What a login shell reads: the first of these that is there.
for file in "$HOME/.bash_profile" "$HOME/.bash_login" "$HOME/.profile"; do if [ -f "$file" ]; then break; fi; done
touch "$file"
block "$file" "network" "export NCCL_SOCKET_IFNAME=$name GLOO_SOCKET_IFNAME=$name"
