//! SM activity as NVIDIA's DCGM measures it: the part of the multiprocessors that had work, where the driver's own figure only says
//! that any kernel ran.

use std::collections::BTreeMap;
use std::time::Duration;

use super::run;

const TIME_LIMIT: Duration = Duration::from_secs(10);
/// DCGM's number for SM activity.
const FIELD_SM_ACTIVE: &str = "1002";

/// Activity from 0 to 1 by device, now; none where DCGM is not there or has no service running.
pub(super) async fn sm_activity() -> Option<BTreeMap<u32, f64>> {
    let mut command = tokio::process::Command::new("dcgmi");
    command.args(["dmon", "-e", FIELD_SM_ACTIVE, "-c", "1"]).stdin(std::process::Stdio::null());
    let said = run::to_end(command, TIME_LIMIT).await.ok()?;
    (said.code == Some(0)).then(|| parse(&said.stdout))
}

fn parse(text: &str) -> BTreeMap<u32, f64> {
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let is_gpu = words.next() == Some("GPU");
        let (index, activity) = (words.next()?.parse().ok()?, words.next()?.parse::<f64>().ok()?);
        (is_gpu && activity.is_finite()).then_some((index, activity.clamp(0.0, 1.0)))
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_takes_rows_of_devices() {
        let text =
            "#Entity   SMACT        \nID                     \nGPU 0     0.812        \nGPU 1     N/A\n";
        assert_eq!(parse(text), BTreeMap::from([(0, 0.812)]));
    }
}
