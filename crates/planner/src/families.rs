//! The built-in families of models, with their usual sizes and any other.
//!
//! Parameters and operations follow from the architecture and are exact but for biases and normalisations. Traffic is counted as
//! frameworks do it that do not fuse attention: 28 passes over a layer's input, eight over the scores, four over what is
//! between the two halves of the perceptron.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{Kind, Layer, Model, Precision};

/// Bytes for each parameter with one moment of 16 bits: what mixtures of experts of this size can afford.
const EXPERT_STATE: f64 = 10.0;

/// Passes of the parameters of products.
pub const MATRIX_PASSES: f64 = 18.0;
/// Passes of the parameters of convolutions at a width of 1: over few samples they work mostly on their parameters.
const CONVOLUTION_PASSES: f64 = 149.5;

/// How they grow with the width: with this power of it.
const CONVOLUTION_WIDENING: f64 = 0.88;

/// A transformer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transformer {
    /// Layers.
    pub layers: u32,
    /// Width of a token.
    pub hidden: u32,
    /// Heads of attention.
    pub heads: u32,
    /// Heads of keys and values.
    pub key_heads: u32,
    /// Tokens of a sample.
    pub tokens: u32,
    /// Words that are distinguished; classes of images.
    pub vocabulary: u32,
    /// Width between the two halves of the perceptron.
    pub inner: u32,
    /// Whether the perceptron has a gate: a third matrix.
    pub is_gated: bool,
    /// Whether the words' table serves both ends.
    pub is_tied: bool,
}

/// Experts of some layers of a transformer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    /// Of a layer.
    pub number: u32,
    /// To how many of them a token goes.
    pub chosen: u32,
    /// Every so many layers has experts.
    pub every: u32,
    /// Tokens that are shared out at a time.
    pub group: u32,
}

/// What decides the operators of a transformer's layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sizes.
    pub base: Transformer,
    /// Experts of the layers that have some.
    pub experts: Option<Experts>,
    /// Whether a token sees only those before it.
    pub is_causal: bool,
    /// Whether weights stay as they are and only adapters beside them are trained.
    pub is_frozen: bool,
}

impl Shape {
    /// Matrices of the first half of the perceptron.
    pub(crate) fn gates(&self) -> f64 {
        if self.base.is_gated { 2.0 } else { 1.0 }
    }

    /// The architecture with sequences of so many tokens.
    pub(crate) fn with_tokens(&self, tokens: u32) -> Architecture {
        let base = Transformer { tokens, ..self.base };
        match self.experts {
            None => Architecture::Transformer(base),
            Some(Experts { number, chosen, every, group }) => {
                Architecture::Mixture(Mixture { base, experts: number, chosen, every, group })
            }
        }
    }

    /// Perceptrons that a token goes through.
    pub(crate) fn routed(&self) -> f64 {
        self.experts.map_or(1.0, |experts| f64::from(experts.chosen))
    }
}

/// A mixture of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mixture {
    /// The rest of it.
    pub base: Transformer,
    /// Experts of a layer.
    pub experts: u32,
    /// To how many of them a token goes.
    pub chosen: u32,
    /// Every so many layers has experts.
    pub every: u32,
    /// Tokens that are shared out among experts at a time; 0 where they are sorted instead.
    pub group: u32,
}

/// A residual network with wide bottlenecks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WideResNet {
    /// 50 or 101 layers.
    pub depth: u32,
    /// Channels of the first stage.
    pub channels: u32,
    /// How much wider the middle of a bottleneck is.
    pub width: u32,
    /// Pixels of an image's side.
    pub image: u32,
}

impl Transformer {
    fn layer(&self) -> Layer {
        let [hidden, inner, heads, tokens] =
            [self.hidden, self.inner, self.heads, self.tokens].map(f64::from);
        let keys = hidden * f64::from(self.key_heads) / heads;
        let perceptron = if self.is_gated { 3.0 } else { 2.0 } * hidden * inner;
        let attention = 2.0 * hidden * hidden + 2.0 * hidden * keys;
        let scores = heads * tokens * tokens;
        let output_bytes = 2.0 * tokens * hidden;
        Layer {
            flop: tokens * (2.0 * (attention + perceptron) + 4.0 * tokens * hidden),
            traffic_bytes: 2.0 * (28.0 * tokens * hidden + 8.0 * scores + 4.0 * tokens * inner),
            parameters: attention + perceptron,
            expert_parameters: 0.0,
            output_bytes,
            summed_bytes: 2.0 * output_bytes,
            exchanged_bytes: 0.0,
            working_bytes: 4.25 * tokens * (4.0 * hidden + inner) + 10.0 * scores,
            parameter_passes: MATRIX_PASSES,
            kernels: 30,
            part: None,
        }
    }

    fn ends(&self, layers: &mut [Layer]) {
        let [hidden, tokens, words] = [self.hidden, self.tokens, self.vocabulary].map(f64::from);
        if let Some(first) = layers.first_mut() {
            first.parameters += (words + tokens) * hidden;
        }
        if let Some(last) = layers.last_mut() {
            last.flop += 2.0 * tokens * hidden * words;
            last.traffic_bytes += 16.0 * tokens * words;
            // Scores of all words, their logarithms, gradients and the labels, after the layer's own backward pass is over.
            last.working_bytes = last.working_bytes.max(16.0 * tokens * words);
            last.parameters += if self.is_tied { 0.0 } else { words * hidden };
        }
    }

    fn model(&self, name: &str, family: &str) -> Model {
        self.model_of(vec![self.layer(); self.layers as usize], name, family)
    }

    fn model_of(&self, mut layers: Vec<Layer>, name: &str, family: &str) -> Model {
        self.ends(&mut layers);
        Model {
            name: name.into(),
            family: family.into(),
            layers,
            precision: Precision::Half,
            kind: Kind::Matrix,
            splits: self.key_heads,
            experts: 0,
            state_bytes: Precision::Half.state_bytes(),
            shape: Some(Shape {
                base: *self,
                experts: None,
                is_causal: !matches!(family, "bert" | "vit"),
                is_frozen: false,
            }),
            trained: 1.0,
            measured: BTreeMap::new(),
        }
    }
}

impl Mixture {
    fn model(&self, name: &str, family: &str) -> Model {
        let base = self.base;
        let mut layers = vec![base.layer(); base.layers as usize];
        let [hidden, inner, tokens] = [base.hidden, base.inner, base.tokens].map(f64::from);
        let [experts, group] = [self.experts, self.group].map(f64::from);
        let perceptron = if base.is_gated { 3.0 } else { 2.0 } * hidden * inner;
        let every = self.every.max(1) as usize;
        let more = f64::from(self.chosen) - 1.0;
        for layer in layers.iter_mut().skip(every - 1).step_by(every) {
            // Further experts, the choice of all, and the products that give tokens to experts and take them back.
            layer.flop += tokens * (2.0 * more * perceptron + 2.0 * hidden * experts + 8.0 * group * hidden);
            layer.traffic_bytes += 8.0 * tokens * inner + 24.0 * tokens * group;
            layer.working_bytes += 16.0 * tokens * group + 4.0 * tokens * inner;
            layer.parameters -= perceptron;
            layer.expert_parameters = experts * perceptron;
            layer.exchanged_bytes = f64::from(self.chosen) * layer.output_bytes;
        }
        let model = base.model_of(layers, name, family);
        let experts =
            Some(Experts { number: self.experts, chosen: self.chosen, every: self.every, group: self.group });
        let shape = model.shape.map(|shape| Shape { experts, ..shape });
        Model { experts: self.experts, state_bytes: EXPERT_STATE, shape, ..model }
    }
}

impl WideResNet {
    fn model(&self, name: &str, family: &str) -> Model {
        let blocks: [u32; 4] = if self.depth > 50 { [3, 4, 23, 3] } else { [3, 4, 6, 3] };
        let (channels, width) = (f64::from(self.channels), f64::from(self.width));
        let mut side = f64::from(self.image / 4);
        let mut incoming = channels;
        let mut layers = Vec::new();
        for (stage, count) in (0_i32..).zip(blocks) {
            let filters = channels * 2_f64.powi(stage);
            for block in 0..count {
                let before = side * side;
                if stage > 0 && block == 0 {
                    side = (side / 2.0).floor();
                }
                let after = side * side;
                let shortcut = if block == 0 { incoming * 4.0 * filters } else { 0.0 };
                let (narrow, middle, wide) =
                    (incoming * filters, 9.0 * filters * filters * width, 4.0 * filters * filters * width);
                let kept = before * filters
                    + after * filters * (width + 4.0)
                    + if block == 0 { after * 4.0 * filters } else { 0.0 };
                incoming = 4.0 * filters;
                layers.push(Layer {
                    flop: 2.0 * (narrow * before + (middle + wide + shortcut) * after),
                    traffic_bytes: 32.0 * kept,
                    parameters: narrow + middle + wide + shortcut,
                    expert_parameters: 0.0,
                    output_bytes: 4.0 * after * incoming,
                    summed_bytes: 2.0 * kept,
                    exchanged_bytes: 0.0,
                    working_bytes: 12.0 * kept,
                    parameter_passes: CONVOLUTION_PASSES * width.powf(CONVOLUTION_WIDENING),
                    kernels: 24,
                    part: None,
                });
            }
        }
        let pixels = f64::from(self.image / 2).powi(2);
        if let [first, .., last] = &mut layers[..] {
            first.flop += 2.0 * 147.0 * channels * pixels;
            first.traffic_bytes += 32.0 * pixels * channels;
            first.working_bytes += 12.0 * pixels * channels;
            first.parameters += 147.0 * channels;
            last.parameters += incoming * 1024.0;
        }
        Model {
            name: name.into(),
            family: family.into(),
            layers,
            precision: Precision::Single,
            kind: Kind::Convolution,
            splits: self.channels,
            experts: 0,
            state_bytes: Precision::Single.state_bytes(),
            shape: None,
            trained: 1.0,
            measured: BTreeMap::new(),
        }
    }
}

/// An architecture of one of the families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// GPT, BERT, Llama, ViT.
    Transformer(Transformer),
    /// A mixture of experts.
    Mixture(Mixture),
    /// A residual network.
    WideResNet(WideResNet),
}

impl Architecture {
    /// The model that it makes.
    #[must_use]
    pub fn model(&self, name: &str, family: &str) -> Model {
        match self {
            Self::Transformer(shape) => shape.model(name, family),
            Self::Mixture(shape) => shape.model(name, family),
            Self::WideResNet(shape) => shape.model(name, family),
        }
    }
}

const fn dense(hidden: u32, layers: u32, heads: u32) -> Architecture {
    Architecture::Transformer(Transformer {
        layers,
        hidden,
        heads,
        key_heads: heads,
        tokens: 1024,
        vocabulary: 51_200,
        inner: 4 * hidden,
        is_gated: false,
        is_tied: true,
    })
}

const fn llama(
    hidden: u32,
    layers: u32,
    heads: u32,
    key_heads: u32,
    inner: u32,
    vocabulary: u32,
) -> Architecture {
    Architecture::Transformer(Transformer {
        layers,
        hidden,
        heads,
        key_heads,
        tokens: 4096,
        vocabulary,
        inner,
        is_gated: true,
        is_tied: false,
    })
}

const fn vit(hidden: u32, layers: u32, heads: u32, tokens: u32) -> Architecture {
    Architecture::Transformer(Transformer {
        layers,
        hidden,
        heads,
        key_heads: heads,
        tokens,
        vocabulary: 1000,
        inner: 4 * hidden,
        is_gated: false,
        is_tied: false,
    })
}

const fn mixture(hidden: u32, layers: u32, experts: u32) -> Architecture {
    let base = Transformer {
        layers,
        hidden,
        heads: 16,
        key_heads: 16,
        tokens: 1024,
        vocabulary: 32_000,
        inner: 8 * hidden,
        is_gated: false,
        is_tied: true,
    };
    Architecture::Mixture(Mixture { base, experts, chosen: 2, every: 2, group: 2048 })
}

const fn wide(depth: u32, channels: u32, width: u32) -> Architecture {
    Architecture::WideResNet(WideResNet { depth, channels, width, image: 224 })
}

/// Sizes of GPT, which BERT is given as well.
const DENSE: &[(&str, Architecture)] = &[
    ("125m", dense(768, 12, 12)),
    ("350m", dense(1024, 24, 16)),
    ("760m", dense(1536, 24, 16)),
    ("1.3b", dense(2048, 24, 32)),
    ("2.6b", dense(2560, 32, 32)),
    ("6.7b", dense(4096, 32, 32)),
    ("15b", dense(5120, 48, 40)),
    ("39b", dense(8192, 48, 64)),
    ("175b", dense(12_288, 96, 96)),
];

/// Families, and the sizes of each.
pub const FAMILIES: &[(&str, &[(&str, Architecture)])] = &[
    ("gpt", DENSE),
    ("bert", DENSE),
    (
        "llama",
        &[
            ("7b", llama(4096, 32, 32, 32, 11_008, 32_000)),
            ("8b", llama(4096, 32, 32, 8, 14_336, 128_256)),
            ("13b", llama(5120, 40, 40, 40, 13_824, 32_000)),
            ("70b", llama(8192, 80, 64, 8, 28_672, 128_256)),
        ],
    ),
    (
        "moe",
        &[
            ("380m", mixture(768, 8, 8)),
            ("690m", mixture(768, 8, 16)),
            ("1.3b", mixture(768, 16, 16)),
            ("2.4b", mixture(1024, 16, 16)),
            ("10b", mixture(1536, 16, 32)),
            ("27b", mixture(2048, 16, 48)),
            ("70b", mixture(2048, 32, 64)),
        ],
    ),
    (
        "wide_resnet",
        &[
            ("250m", wide(50, 160, 2)),
            ("500m", wide(50, 224, 2)),
            ("1b", wide(50, 320, 2)),
            ("2b", wide(50, 448, 2)),
            ("4b", wide(50, 640, 2)),
            ("6.8b", wide(50, 320, 16)),
            ("13b", wide(101, 320, 16)),
        ],
    ),
    (
        "vit",
        &[
            ("b", vit(768, 12, 12, 197)),
            ("l", vit(1024, 24, 16, 197)),
            ("h", vit(1280, 32, 16, 257)),
            ("g", vit(1664, 48, 16, 257)),
        ],
    ),
];

/// Why a name is no model's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownModel {
    /// There is no such family.
    #[error("`{name}` is of no known family; known are {}", FAMILIES.iter().map(|(family, _)| *family).collect::<Vec<_>>().join(", "))]
    Family {
        /// The name.
        name: String,
    },
    /// The family has no such size.
    #[error("`{family}` has no size `{size}`; known are {known}")]
    Size {
        /// The family.
        family: Arc<str>,
        /// What was said.
        size: String,
        /// What can be.
        known: String,
    },
}

/// A family's name, and its sizes.
type Family = (&'static str, &'static [(&'static str, Architecture)]);

/// The family whose name a text begins with, and what follows: letters' case and what stands between do not matter.
fn family(name: &str) -> Option<(Family, &str)> {
    let is_same =
        |given: u8, known: u8| given.to_ascii_lowercase() == known || (given, known) == (b'-', b'_');
    let begins = |known: &str| {
        name.len() >= known.len()
            && name.bytes().zip(known.bytes()).all(|(given, known)| is_same(given, known))
    };
    let found = FAMILIES.iter().find(|(known, _)| begins(known))?;
    Some((*found, name[found.0.len()..].trim_matches(['_', '-'])))
}

/// Whether a name such as `gpt-2.6b` is a built-in model's.
#[must_use]
pub fn is_known(name: &str) -> bool {
    family(name)
        .is_some_and(|((_, sizes), size)| sizes.iter().any(|(known, _)| size.eq_ignore_ascii_case(known)))
}

/// The model of a name such as `gpt-2.6b`, `moe__690M` or `wide_resnet_1B`: letters' case and what stands between do not matter.
///
/// # Errors
/// [`UnknownModel`] where it is none.
pub fn find(name: &str) -> Result<Model, UnknownModel> {
    let ((family, sizes), size) =
        family(name).ok_or_else(|| UnknownModel::Family { name: name.to_owned() })?;
    let found = sizes.iter().find(|(known, _)| size.eq_ignore_ascii_case(known));
    let (size, architecture) = found.ok_or_else(|| UnknownModel::Size {
        family: family.into(),
        size: size.to_lowercase(),
        known: sizes.iter().map(|(size, _)| *size).collect::<Vec<_>>().join(", "),
    })?;
    Ok(architecture.model(&format!("{family}-{size}"), family))
}
