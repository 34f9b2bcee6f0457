//! Models: what one sample costs them. From their published sizes; traffic and activations are rough.

/// A model of the built-in table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Its name in traces.
    pub name: &'static str,
    /// Samples per iteration and device, usually.
    pub batch_size: u32,
    /// Parameters that every device holds and exchanges gradients of, in millions.
    pub parameters_m: f64,
    /// Operations of the forward and backward pass of one sample, in 10⁹.
    pub gflop: f64,
    /// What one sample moves between a device and its memory beside that, in 10⁶ bytes.
    pub traffic_mb: f64,
    /// Activations that are kept of one sample for the backward pass, in 10⁶ bytes.
    pub activation_mb: f64,
    /// Reading and preprocessing one sample, in milliseconds.
    pub read_ms: f64,
}

const MODELS: &[Model] = &[
    // Images of 224 × 224.
    model("resnet50", 64, [25.6, 24.6, 550.0, 90.0, 1.0]),
    model("vgg19", 32, [143.7, 118.0, 620.0, 120.0, 1.0]),
    model("vit-b", 32, [86.0, 105.0, 900.0, 140.0, 1.0]),
    // 512 tokens.
    model("bert-base", 16, [110.0, 290.0, 900.0, 350.0, 0.1]),
    model("t5-small", 32, [60.5, 190.0, 700.0, 220.0, 0.1]),
    // 1,024 tokens.
    model("gpt2-medium", 8, [354.8, 2230.0, 4200.0, 900.0, 0.2]),
    // The embedding tables are elsewhere.
    model("dlrm", 2048, [15.0, 0.05, 5.0, 0.5, 0.08]),
    model("a3c", 128, [2.5, 0.05, 2.0, 0.5, 1.8]),
];

const fn model(name: &'static str, batch_size: u32, numbers: [f64; 5]) -> Model {
    let [parameters_m, gflop, traffic_mb, activation_mb, read_ms] = numbers;
    Model { name, batch_size, parameters_m, gflop, traffic_mb, activation_mb, read_ms }
}

/// The built-in models.
pub fn models() -> &'static [Model] {
    MODELS
}
