# Makes the folder of an image with nothing but busybox in it: sh make-image.sh FOLDER
set -e
folder=$1
for name in bin etc dev proc sys tmp home root run var/tmp opt ch mnt/0; do mkdir -p "$folder/$name"; done
busybox=$(command -v busybox)
cp "$busybox" "$folder/bin/busybox"
for name in $("$busybox" --list | grep -vx busybox); do ln -sf busybox "$folder/bin/$name"; done
echo 'root:x:0:0:root:/root:/bin/sh' > "$folder/etc/passwd"
echo 'root:x:0:' > "$folder/etc/group"
: > "$folder/etc/hosts"
: > "$folder/etc/resolv.conf"
echo 'IMAGE=small' > "$folder/ch/environment"
