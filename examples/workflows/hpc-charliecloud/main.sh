# Stands for a training script: takes the configuration of its own element and says what it would do.
. "./configs/$WHARF_ARRAY_INDEX.conf"
echo "$PROJECT $WHARF_ARRAY_INDEX: learning rate $learning_rate, $layers layers, in ${WHARF_CONTAINER:-no container}"
