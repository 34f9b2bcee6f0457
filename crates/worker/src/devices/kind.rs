//! The device type that follows from a product's name: `NVIDIA A100-SXM4-40GB` is an `a100`.
//!
//! Form factor and memory are left out on purpose: people ask for `a100`, and who has to tell two variants apart declares them
//! (`--devices a100-80:4`).

/// Words that say whose product it is, or nothing.
const IDLE_WORDS: [&str; 16] = [
    "nvidia",
    "amd",
    "ati",
    "intel",
    "advanced",
    "micro",
    "devices",
    "inc",
    "corporation",
    "tesla",
    "geforce",
    "quadro",
    "instinct",
    "graphics",
    "generation",
    "device",
];
/// Families whose models are mere numbers, and which are therefore a part of the name.
const FAMILIES: [&str; 6] = ["rtx", "gtx", "gt", "rx", "pro", "titan"];
/// What makes another product of the same number.
const VARIANTS: [&str; 6] = ["ti", "super", "ada", "xt", "xtx", "d"];

/// What a device is called whose name states nothing.
const UNKNOWN: &str = "gpu";

/// The type of a product, in lower case letters and digits.
pub(super) fn device_type(product: &str) -> String {
    let product = product.to_ascii_lowercase();
    let words: Vec<&str> = product
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty() && !IDLE_WORDS.contains(word))
        .collect();
    let is_model = |word: &str| word.contains(|c: char| c.is_ascii_digit()) && !is_memory(word);
    let Some(model) = words.iter().position(|word| is_model(word)) else {
        return if words.is_empty() { UNKNOWN.to_owned() } else { words.concat() };
    };
    let mut name = String::new();
    if words[model].starts_with(|c: char| c.is_ascii_digit()) {
        words[..model].iter().filter(|word| FAMILIES.contains(word)).for_each(|word| name += word);
    }
    name += words[model];
    words[model + 1..].iter().take_while(|word| VARIANTS.contains(word)).for_each(|word| name += word);
    name
}

fn is_memory(word: &str) -> bool {
    let number = word.strip_suffix("gb").or_else(|| word.strip_suffix("gib"));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether devices of this type are AMD's, whose runtime counts them in its own way.
pub(super) fn is_amd(device_type: &str) -> bool {
    let followed_by_digit = |prefix: &str| {
        let rest = device_type.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    device_type.starts_with("radeon") || ["mi", "gfx", "rx"].into_iter().any(followed_by_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_type_is_the_model_in_lower_case() {
        let products = [
            ("NVIDIA A100-SXM4-40GB", "a100"),
            ("NVIDIA A100 80GB PCIe", "a100"),
            ("A100-PCIE-40GB", "a100"),
            ("Tesla V100-SXM2-16GB", "v100"),
            ("Tesla P100-PCIE-16GB", "p100"),
            ("Tesla T4", "t4"),
            ("Tesla K80", "k80"),
            ("NVIDIA A40", "a40"),
            ("NVIDIA A10G", "a10g"),
            ("NVIDIA L40S", "l40s"),
            ("NVIDIA H100 80GB HBM3", "h100"),
            ("NVIDIA H100 PCIe", "h100"),
            ("NVIDIA H200 NVL", "h200"),
            ("NVIDIA GH200 480GB", "gh200"),
            ("NVIDIA B200", "b200"),
            ("NVIDIA RTX A6000", "a6000"),
            ("NVIDIA RTX 6000 Ada Generation", "rtx6000ada"),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtxpro6000"),
            ("Quadro RTX 6000", "rtx6000"),
            ("NVIDIA GeForce RTX 3090", "rtx3090"),
            ("NVIDIA GeForce RTX 3080 Ti", "rtx3080ti"),
            ("NVIDIA GeForce RTX 4070 Ti SUPER", "rtx4070tisuper"),
            ("GeForce GTX 1080 Ti", "gtx1080ti"),
            ("NVIDIA TITAN V", "titanv"),
            ("NVIDIA TITAN RTX", "titanrtx"),
            ("AMD Instinct MI250X", "mi250x"),
            ("AMD INSTINCT MI250X/MI250", "mi250x"),
            ("AMD Instinct MI300X OAM", "mi300x"),
            ("Instinct MI100", "mi100"),
            ("AMD Radeon RX 7900 XTX", "rx7900xtx"),
            ("AMD Radeon Pro VII", "radeonprovii"),
            ("gfx90a", "gfx90a"),
            ("NVIDIA Graphics Device", "gpu"),
            ("", "gpu"),
        ];
        for (product, expected) in products {
            assert_eq!(device_type(product), expected, "{product}");
        }
    }

    #[test]
    fn is_amd_by_type() {
        let types = [("mi250x", true), ("gfx90a", true), ("radeonprovii", true), ("rx7900xtx", true)];
        let others = [("a100", false), ("v100", false), ("rtx3090", false), ("mill", false), ("cpu", false)];
        for (name, expected) in types.into_iter().chain(others) {
            assert_eq!(is_amd(name), expected, "{name}");
        }
    }
}
