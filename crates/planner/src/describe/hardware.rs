//! Descriptions of devices and their links.

use crate::Hardware;
use crate::links::{Link, Links, Rings};
use wharf_document::decode::{Decode, Fields, Problem, path};
use wharf_document::node::{Node, Value};

use super::{count, positive, wrong};

const DEVICE: &[&str] = &[
    "name",
    "like",
    "half_tflops",
    "single_tflops",
    "rounding",
    "memory_gb_per_s",
    "memory_gib",
    "price_per_h",
    "per_node",
    "kernel_us",
    "workspace_gib",
    "at_once",
    "links",
    "fp8_tflops",
    "fp4_tflops",
    "product_share",
    "units",
    "cache_mb",
    "host_speed",
];

/// Most multiprocessors of a device.
const UNITS_MAX: u32 = 1 << 12;

/// Most devices of a node.
const PER_NODE_MAX: u32 = 1 << 12;

pub(super) fn decode(node: &Node) -> Result<Vec<Hardware>, Problem> {
    Fields::new(node, "", &["devices"])?.need::<Descriptions>("devices").map(|devices| devices.0)
}

/// Devices of which each may be like one before it.
struct Descriptions(Vec<Hardware>);

impl Decode for Descriptions {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        let Value::List(items) = &node.value else {
            return Err(Problem::expected(node, at, "a list of devices"));
        };
        let mut devices: Vec<Hardware> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let at = format!("{at}[{index}]");
            let found = device(item, &at, &devices)?;
            if devices.iter().any(|known| known.name == found.name) {
                return Err(wrong(item, &at, "name", format!("`{}` is described twice", found.name)));
            }
            devices.push(found);
        }
        Ok(Self(devices))
    }
}

fn device(node: &Node, at: &str, before: &[Hardware]) -> Result<Hardware, Problem> {
    let fields = Fields::new(node, at, DEVICE)?;
    let name = fields.need::<String>("name")?.to_lowercase();
    if name.is_empty() || name.contains(':') || name.contains(char::is_whitespace) {
        return Err(wrong(node, at, "name", format!("`{name}` cannot be written as TYPE:COUNT")));
    }
    let number = |field: &str| positive(&fields, node, at, field);
    let base = match fields.take::<String>("like")? {
        Some(like) => Some(alike(node, at, &like.to_lowercase(), before)?),
        None => None,
    };
    let links = fields.take::<Ways>("links")?.unwrap_or_default();
    let missing = |field: &str| {
        let message = "required, unless `like` names a known device";
        wrong(node, at, field, message)
    };
    let base = match base {
        Some(base) => Hardware { name: name.as_str().into(), ..base },
        None => Hardware::new(
            &name,
            number("half_tflops")?.ok_or_else(|| missing("half_tflops"))?,
            number("memory_gb_per_s")?.ok_or_else(|| missing("memory_gb_per_s"))?,
            number("memory_gib")?.ok_or_else(|| missing("memory_gib"))?,
            links.near.ok_or_else(|| missing("links.near"))?,
        ),
    };
    let half_tflops = number("half_tflops")?.unwrap_or(base.half_tflops);
    // Twice the speed in half as many bits by default.
    let single = base.single_tflops * half_tflops / base.half_tflops;
    Ok(Hardware {
        half_tflops,
        single_tflops: number("single_tflops")?.unwrap_or(single),
        is_rounding: fields.take("rounding")?.unwrap_or(base.is_rounding),
        memory_gb_per_s: number("memory_gb_per_s")?.unwrap_or(base.memory_gb_per_s),
        memory_gib: number("memory_gib")?.unwrap_or(base.memory_gib),
        price_per_h: fields.take("price_per_h")?.unwrap_or(base.price_per_h),
        per_node: count(&fields, node, at, "per_node", PER_NODE_MAX)?.or(base.per_node),
        kernel_s: fields.take::<f64>("kernel_us")?.map_or(base.kernel_s, |us| us * 1e-6),
        workspace_gib: fields.take("workspace_gib")?.unwrap_or(base.workspace_gib),
        at_once: number("at_once")?.or(base.at_once),
        links: links.over(base.links),
        short_tflops: [
            number("fp8_tflops")?.or(base.short_tflops[0]),
            number("fp4_tflops")?.or(base.short_tflops[1]),
        ],
        product_share: number("product_share")?.unwrap_or(base.product_share),
        units: count(&fields, node, at, "units", UNITS_MAX)?.unwrap_or(base.units),
        cache_bytes: number("cache_mb")?.map_or(base.cache_bytes, |mb| mb * 1e6),
        host_speed: number("host_speed")?.unwrap_or(base.host_speed),
        name: base.name,
    })
}

fn alike(node: &Node, at: &str, like: &str, before: &[Hardware]) -> Result<Hardware, Problem> {
    let known = before.iter().find(|known| *known.name == *like).cloned();
    known.or_else(|| Hardware::builtin(like)).ok_or_else(|| {
        let message = format!("unknown device `{like}`; choices: {}", Hardware::names().join(", "));
        wrong(node, at, "like", message)
    })
}

/// The ways of a device to others, as far as they are described.
#[derive(Default)]
struct Ways {
    near: Option<Link>,
    far: Option<Link>,
    send_near: Option<Link>,
    send_far: Option<Link>,
}

impl Ways {
    /// Sending is as fast as passing on where only that is described.
    fn over(self, base: Links) -> Links {
        Links {
            near: self.near.unwrap_or(base.near),
            far: self.far.unwrap_or(base.far),
            send_near: self.send_near.or(self.near).unwrap_or(base.send_near),
            send_far: self.send_far.or(self.far).unwrap_or(base.send_far),
            rings: if self.near.is_some() { Rings::default() } else { base.rings },
        }
    }
}

impl Decode for Ways {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        let fields = Fields::new(node, at, &["near", "far", "send_near", "send_far"])?;
        let link = |name: &str| fields.take::<Way>(name).map(|way| way.map(|way| way.0));
        Ok(Self {
            near: link("near")?,
            far: link("far")?,
            send_near: link("send_near")?,
            send_far: link("send_far")?,
        })
    }
}

/// One way.
struct Way(Link);

impl Decode for Way {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        let fields = Fields::new(node, at, &["gb_per_s", "latency_us"])?;
        let missing = || Problem::new(node, &path(at, "gb_per_s"), "required");
        let gb_per_s = positive(&fields, node, at, "gb_per_s")?.ok_or_else(missing)?;
        let latency_s = fields.take::<f64>("latency_us")?.unwrap_or(0.0) * 1e-6;
        Ok(Self(Link { gb_per_s, latency_s }))
    }
}
