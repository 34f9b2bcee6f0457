case $FOLDER in "~/"*) FOLDER="$HOME/${FOLDER#??}" ;; esac
if "$PYTHON" -c 'import apex, amp_C' 2> /dev/null; then exit 0; fi
"$PYTHON" -c 'import torch' || fail "Apex is built against PyTorch, which \`$PYTHON\` does not have"
[ -d "$FOLDER" ] || git clone --quiet "$REPOSITORY" "$FOLDER"
[ -z "$REVISION" ] || git -C "$FOLDER" checkout --quiet "$REVISION"
# Older ones read the options, newer ones the variables.
APEX_CPP_EXT=1 APEX_CUDA_EXT=1 "$PYTHON" -m pip install -v --no-cache-dir --no-build-isolation \
  --global-option=--cpp_ext --global-option=--cuda_ext "$FOLDER"
"$PYTHON" -c 'import apex, amp_C' || fail 'Apex was built without its extensions'
