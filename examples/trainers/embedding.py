#!/usr/bin/env python3
"""Word embeddings by skip-gram with negative sampling: words of one topic end up close to each other.

The text is made up as it is needed: sentences of words of one of four topics, with a stray word now and then.
"""

import math

import common
from common import wharf

TOPICS = ["anchor buoy harbour quay tide vessel", "brass chord fiddle rhythm tempo waltz"]
TOPICS += ["basil cumin ginger pepper saffron thyme", "comet lunar nebula orbit quasar zenith"]
WORDS = [word for topic in TOPICS for word in topic.split()]
TOPIC_OF = [index for index, topic in enumerate(TOPICS) for _ in topic.split()]
DIMENSIONS = 8
PAIRS = 24
NEGATIVES = 3
RATE = 0.15


def pairs(rng):
    """Words that stand beside each other."""
    for _ in range(PAIRS):
        topic = rng.randrange(len(TOPICS))
        mates = [word for word, of in enumerate(TOPIC_OF) if of == topic]
        stray = rng.random() < 0.05
        yield rng.choice(mates), rng.randrange(len(WORDS)) if stray else rng.choice(mates)


def nudge(word, context, wanted):
    """Moves two vectors towards each other (wanted 1) or apart (0); gives the loss before."""
    score = sum(a * b for a, b in zip(word, context))
    p = 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))
    for i in range(DIMENSIONS):
        a, b = word[i], context[i]
        word[i] -= RATE * (p - wanted) * b
        context[i] -= RATE * (p - wanted) * a
    return -math.log(p if wanted else 1 - p)


def train(state, rng):
    loss = 0.0
    for word, context in pairs(rng):
        loss += nudge(state["words"][word], state["contexts"][context], 1)
        for _ in range(NEGATIVES):
            other = rng.randrange(len(WORDS))
            if TOPIC_OF[other] != TOPIC_OF[context]:
                loss += nudge(state["words"][word], state["contexts"][other], 0)
    return loss / PAIRS


def fresh(seed):
    rng = common.generator(seed, -1)
    vectors = [[[rng.uniform(-0.2, 0.2) for _ in range(DIMENSIONS)] for _ in WORDS] for _ in range(2)]
    return {"step": 0, "words": vectors[0], "contexts": vectors[1]}


def neighbour(words, word):
    """The other word that is closest in direction."""

    def cosine(a, b):
        return sum(x * y for x, y in zip(a, b)) / (math.hypot(*a) * math.hypot(*b))

    others = [other for other in range(len(words)) if other != word]
    return max(others, key=lambda other: cosine(words[word], words[other]))


def main():
    args = common.arguments(__doc__.splitlines()[0], iterations=600)
    path = common.checkpoint_file("embedding")
    state = common.load(path) or fresh(args.seed)
    for step in wharf.steps(args.iterations, start=state["step"], checkpoint_every=args.checkpoint_every):
        with common.paced(args.iteration_ms):
            loss = train(state, common.generator(args.seed, step))
        wharf.report(loss=loss)
        common.tell(step, args.iterations, loss)
        if wharf.should_checkpoint():
            state["step"] = step + 1
            common.save(path, state)
            wharf.checkpointed()
    right = sum(TOPIC_OF[neighbour(state["words"], word)] == topic for word, topic in enumerate(TOPIC_OF))
    print(f"done: the nearest neighbour of {right} of {len(WORDS)} words is of their topic")


if __name__ == "__main__":
    main()
