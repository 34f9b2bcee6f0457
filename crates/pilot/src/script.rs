//! What Slurm runs: scripts for the shell, made of words that the shell takes as they are.

use wharf_document::shell::line;

/// What a pilot's Slurm job runs: a worker on each of its nodes.
///
/// On one node that is the job's own process, which Slurm tells to end before it kills it. On several the first one leads.
pub(crate) fn pilot(program: &str, spec: &str, nodes: u32) -> String {
    let role = if nodes == 1 { "node" } else { "lead" };
    let start = format!("exec {}", line([program, "pilot", role, "--spec", spec]));
    format!(
        "#!/bin/sh\n# A pilot of Wharf: lends this allocation to a head for as long as it has work.\n{start}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_nodes_have_one_that_leads() {
        assert!(
            pilot("/opt/wharf", "/x y/spec.json", 1)
                .ends_with("\nexec /opt/wharf pilot node --spec '/x y/spec.json'\n")
        );
        let several = pilot("/opt/wharf", "/spec.json", 3);
        assert!(several.ends_with("\nexec /opt/wharf pilot lead --spec /spec.json\n"));
    }
}
