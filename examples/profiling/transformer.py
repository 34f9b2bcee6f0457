"""Small transformers that `wharf profile` can capture, and run under every parallel plan."""

import jax
import jax.numpy as jnp

from wharf.profiler import Stack


def transformer() -> Stack:
    return stack(layers=8, width=128, heads=8, length=32, words=512, samples=16)


def wide() -> Stack:
    return stack(layers=8, width=192, heads=8, length=16, words=1024, samples=32)


def stack(layers: int, width: int, heads: int, length: int, words: int, samples: int) -> Stack:
    f32 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
    tokens = jax.ShapeDtypeStruct((samples, length + 1), jnp.int32)
    return Stack(
        first=lambda params, tokens: params["words"][tokens[:, :-1]] + params["places"],
        block=block,
        last=loss,
        params={
            "first": {"words": f32(words, width), "places": f32(length, width)},
            "blocks": {
                "norm1": f32(layers, width),
                "qkv": f32(layers, width, 3, heads, width // heads),
                "out": f32(layers, heads, width // heads, width),
                "norm2": f32(layers, width),
                "up": f32(layers, width, 4 * width),
                "down": f32(layers, 4 * width, width),
            },
            "last": {"norm": f32(width), "words": f32(width, words)},
        },
        batch=tokens,
        # Heads and hidden units are shared out; `out` and `down` give each device a part of the sum.
        split={"qkv": 2, "out": 0, "up": 1, "down": 0},
    )


def norm(scale, x):
    return scale * x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def block(params, x, total):
    q, k, v = jnp.einsum("btd,dchk->cbthk", norm(params["norm1"], x), params["qkv"])
    scores = jnp.einsum("bthk,bshk->bhts", q, k) * q.shape[-1] ** -0.5
    past = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(past, scores, -1e9))
    x = x + total(jnp.einsum("bhts,bshk,hkd->btd", weights, v, params["out"]))
    hidden = jax.nn.gelu(norm(params["norm2"], x) @ params["up"])
    return x + total(hidden @ params["down"])


def loss(params, x, tokens):
    logits = norm(params["norm"], x) @ params["words"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1)
    return -jnp.mean(chosen)
