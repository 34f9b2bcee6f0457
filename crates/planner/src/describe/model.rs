//! A model's description.

use std::collections::BTreeMap;

use crate::families::{Architecture, FAMILIES, MATRIX_PASSES, Mixture, Transformer, WideResNet};
use crate::model::{Kind, Layer, Precision};
use crate::{Model, Part};
use wharf_document::decode::{Decode, Fields, Problem};
use wharf_document::node::Node;

use super::{choose, count, positive, wrong};

/// Most layers, and largest size of anything: far above what is trained, and small enough to be planned.
const LAYERS_MAX: u32 = 4096;
const SIZE_MAX: u32 = 1 << 24;

/// How often a layer's activations go through memory by default: written once and read once.
const TRAFFIC_OF_ACTIVATIONS: f64 = 2.0;
/// Default number of kernels of a layer.
const KERNELS: u32 = 30;

const FIELDS: &[&str] =
    &["name", "family", "size", "layers", "precision", "kind", "splits", "experts", "state_bytes"];

pub(super) fn decode(node: &Node) -> Result<Model, Problem> {
    let fields = Fields::new(node, "", FIELDS)?;
    let name: String = fields.need("name")?;
    if name.trim().is_empty() {
        return Err(wrong(node, "", "name", "it must not be empty"));
    }
    let model = match (fields.take::<Tree>("size")?, fields.take::<Vec<Repeated>>("layers")?) {
        (Some(_), Some(_)) => {
            return Err(wrong(
                node,
                "",
                "layers",
                "either `size`, for a built-in family, or `layers`, not both",
            ));
        }
        (Some(Tree(size)), None) => sized(&fields, node, &size, &name)?,
        (None, Some(layers)) => listed(&fields, node, layers, &name)?,
        (None, None) => {
            let hint =
                "`family` and `size` describe a built-in family in another size, `layers` anything else";
            return Err(Problem {
                hint: Some(hint.to_owned()),
                ..Problem::new(node, "", "neither `size` nor `layers` is given")
            });
        }
    };
    let state_bytes = positive(&fields, node, "", "state_bytes")?;
    let least = 2.0 * model.precision.bytes();
    if state_bytes.is_some_and(|bytes| bytes < least) {
        let message = format!("a parameter and its gradient alone take {least} bytes");
        return Err(wrong(node, "", "state_bytes", message));
    }
    Ok(Model { state_bytes: state_bytes.unwrap_or(model.state_bytes), ..model })
}

fn precision(fields: &Fields<'_>, node: &Node) -> Result<Option<Precision>, Problem> {
    choose(
        fields,
        node,
        "",
        "precision",
        &[
            ("half", Precision::Half),
            ("single", Precision::Single),
            ("fp8", Precision::Fp8),
            ("fp4", Precision::Fp4),
        ],
    )
}

/// A built-in family in a size of the user's own.
fn sized(fields: &Fields<'_>, node: &Node, size: &Node, name: &str) -> Result<Model, Problem> {
    for field in ["kind", "splits", "experts"] {
        if fields.take::<Tree>(field)?.is_some() {
            return Err(wrong(node, "", field, "it follows from the family"));
        }
    }
    let families: Vec<(&str, usize)> =
        FAMILIES.iter().enumerate().map(|(index, (family, _))| (*family, index)).collect();
    let Some(index) = choose(fields, node, "", "family", &families)? else {
        return Err(wrong(node, "", "family", "required with `size`"));
    };
    let (family, sizes) = FAMILIES[index];
    let architecture = match sizes[0].1 {
        Architecture::Transformer(usual) => Architecture::Transformer(transformer(size, usual, &[])?),
        Architecture::Mixture(usual) => Architecture::Mixture(mixture(size, usual)?),
        Architecture::WideResNet(usual) => Architecture::WideResNet(wide_resnet(size, usual)?),
    };
    let model = architecture.model(name, family);
    let precision = precision(fields, node)?.unwrap_or(model.precision);
    Ok(model.in_precision(precision))
}

const TRANSFORMER: &[&str] =
    &["layers", "hidden", "heads", "key_heads", "tokens", "vocabulary", "inner", "gated", "tied"];

/// What is not said is as in the usual sizes of the family.
fn transformer(node: &Node, usual: Transformer, more: &[&str]) -> Result<Transformer, Problem> {
    let known = [TRANSFORMER, more].concat();
    let fields = Fields::new(node, "size", &known)?;
    let number = |name: &str, most: u32| count(&fields, node, "size", name, most);
    let needed =
        |name: &str, most: u32| number(name, most)?.ok_or_else(|| wrong(node, "size", name, "required"));
    let (layers, hidden, heads) =
        (needed("layers", LAYERS_MAX)?, needed("hidden", SIZE_MAX)?, needed("heads", SIZE_MAX)?);
    let key_heads = number("key_heads", SIZE_MAX)?.unwrap_or(heads);
    if !hidden.is_multiple_of(heads) {
        return Err(wrong(node, "size", "heads", format!("{hidden} is no multiple of {heads}")));
    }
    if !heads.is_multiple_of(key_heads) {
        return Err(wrong(node, "size", "key_heads", format!("{heads} is no multiple of {key_heads}")));
    }
    let wider = u64::from(hidden) * u64::from(usual.inner) / u64::from(usual.hidden);
    Ok(Transformer {
        layers,
        hidden,
        heads,
        key_heads,
        tokens: number("tokens", SIZE_MAX)?.unwrap_or(usual.tokens),
        vocabulary: number("vocabulary", SIZE_MAX)?.unwrap_or(usual.vocabulary),
        inner: number("inner", SIZE_MAX)?.unwrap_or_else(|| u32::try_from(wider).unwrap_or(SIZE_MAX)),
        is_gated: fields.take("gated")?.unwrap_or(usual.is_gated),
        is_tied: fields.take("tied")?.unwrap_or(usual.is_tied),
    })
}

fn mixture(node: &Node, usual: Mixture) -> Result<Mixture, Problem> {
    let more = ["experts", "chosen", "every", "group"];
    let base = transformer(node, usual.base, &more)?;
    let fields = Fields::new(node, "size", &[TRANSFORMER, &more].concat())?;
    let number = |name: &str, usual| {
        count(&fields, node, "size", name, SIZE_MAX).map(|number| number.unwrap_or(usual))
    };
    let experts = number("experts", usual.experts)?;
    let chosen = number("chosen", usual.chosen)?;
    if chosen > experts {
        return Err(wrong(node, "size", "chosen", format!("{chosen} of {experts} experts cannot be chosen")));
    }
    Ok(Mixture {
        base,
        experts,
        chosen,
        every: number("every", usual.every)?,
        group: number("group", usual.group)?,
    })
}

fn wide_resnet(node: &Node, usual: WideResNet) -> Result<WideResNet, Problem> {
    let fields = Fields::new(node, "size", &["depth", "channels", "width", "image"])?;
    let number = |name: &str, usual| {
        count(&fields, node, "size", name, SIZE_MAX).map(|number| number.unwrap_or(usual))
    };
    let depth = number("depth", usual.depth)?;
    if ![50, 101].contains(&depth) {
        return Err(wrong(node, "size", "depth", format!("expected 50 or 101, found {depth}")));
    }
    let image = number("image", usual.image)?;
    if image < 32 {
        return Err(wrong(node, "size", "image", format!("expected at least 32 pixels, found {image}")));
    }
    Ok(WideResNet {
        depth,
        channels: number("channels", usual.channels)?,
        width: number("width", usual.width)?,
        image,
    })
}

/// Layers one by one.
fn listed(fields: &Fields<'_>, node: &Node, layers: Vec<Repeated>, name: &str) -> Result<Model, Problem> {
    let kinds = [("matrix", Kind::Matrix), ("convolution", Kind::Convolution)];
    let precision = precision(fields, node)?.unwrap_or(Precision::Half);
    let total: u64 = layers.iter().map(|layer| u64::from(layer.repeat)).sum();
    if total == 0 || total > u64::from(LAYERS_MAX) {
        return Err(wrong(node, "", "layers", format!("expected 1 to {LAYERS_MAX} layers, found {total}")));
    }
    let layers: Vec<Layer> =
        layers.iter().flat_map(|layer| std::iter::repeat_n(layer.layer, layer.repeat as usize)).collect();
    let experts = fields.take("experts")?.unwrap_or(0);
    if experts == 0 && layers.iter().any(|layer| layer.expert_parameters > 0.0) {
        return Err(wrong(node, "", "experts", "expert parameters need the number of experts"));
    }
    Ok(Model {
        name: name.into(),
        family: fields.take::<String>("family")?.as_deref().unwrap_or(name).into(),
        layers,
        precision,
        kind: choose(fields, node, "", "kind", &kinds)?.unwrap_or(Kind::Matrix),
        splits: count(fields, node, "", "splits", SIZE_MAX)?.unwrap_or(1),
        experts,
        state_bytes: precision.state_bytes(),
        shape: None,
        trained: 1.0,
        measured: BTreeMap::new(),
    })
}

/// A layer, so many times.
struct Repeated {
    layer: Layer,
    repeat: u32,
}

const LAYER: &[&str] = &[
    "name",
    "repeat",
    "flop",
    "parameters",
    "output_bytes",
    "activation_bytes",
    "traffic_bytes",
    "summed_bytes",
    "expert_parameters",
    "exchanged_bytes",
    "parameter_passes",
    "kernels",
    "part",
];

impl Decode for Repeated {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        let fields = Fields::new(node, at, LAYER)?;
        fields.take::<String>("name")?;
        let parts = Part::ALL.map(|part| (part.name(), part));
        let or =
            |name: &str, otherwise: f64| fields.take::<f64>(name).map(|given| given.unwrap_or(otherwise));
        let output_bytes: f64 = fields.need("output_bytes")?;
        let working_bytes: f64 = fields.need("activation_bytes")?;
        let layer = Layer {
            flop: fields.need("flop")?,
            parameters: fields.need("parameters")?,
            output_bytes,
            working_bytes,
            traffic_bytes: or("traffic_bytes", TRAFFIC_OF_ACTIVATIONS * working_bytes)?,
            summed_bytes: or("summed_bytes", 2.0 * output_bytes)?,
            expert_parameters: or("expert_parameters", 0.0)?,
            exchanged_bytes: or("exchanged_bytes", 0.0)?,
            parameter_passes: or("parameter_passes", MATRIX_PASSES)?,
            kernels: fields.take("kernels")?.unwrap_or(KERNELS),
            part: choose(&fields, node, at, "part", &parts)?,
        };
        Ok(Self { layer, repeat: count(&fields, node, at, "repeat", LAYERS_MAX)?.unwrap_or(1) })
    }
}

/// A part of the document as it is.
struct Tree(Node);

impl Decode for Tree {
    fn decode(node: &Node, _at: &str) -> Result<Self, Problem> {
        Ok(Self(node.clone()))
    }
}
