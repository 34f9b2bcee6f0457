//! Open MPI over several machines with nothing configured: no ssh, no hostfile of the user's, no options.

use std::collections::BTreeSet;
use std::process::Stdio;

use wharf_testing::needs;

use super::{LIMIT, LOST_AFTER_S, history, survivors};
use crate::netns::machines::{Cluster, until};

/// Sums the ranks over all processes, by Open MPI's library alone.
const SUM: &str = r#"
import ctypes, socket
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
handle = lambda name: ctypes.byref(ctypes.c_char.in_dll(mpi, name))
mpi.MPI_Init(None, None)
world = handle("ompi_mpi_comm_world")
rank, total = ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Allreduce(ctypes.byref(rank), ctypes.byref(total), 1, handle("ompi_mpi_int"), handle("ompi_mpi_op_sum"), world)
print(f"<{rank.value} {socket.gethostname()} {total.value}>", flush=True)
mpi.MPI_Finalize()
"#;

/// Every `<RANK HOST SUM>` of an output. Processes write to pseudo-terminals, which pass a line and its end on one after the other:
/// lines of several processes may share their ends.
fn sums(output: &str) -> BTreeSet<(u32, String, u32)> {
    let of_part = |part: &str| match part.split(' ').collect::<Vec<_>>()[..] {
        [rank, host, sum] => Some((rank.parse().ok()?, host.to_owned(), sum.parse().ok()?)),
        _ => None,
    };
    output.split(['<', '>']).filter_map(of_part).collect()
}

/// Two processes on each of so many machines, in their order.
fn expected(machines: u32) -> BTreeSet<(u32, String, u32)> {
    let sum = (0..2 * machines).sum();
    (0..2 * machines).map(|rank| (rank, format!("nd{}", rank / 2 + 1), sum)).collect()
}

fn trial(cluster: &Cluster) -> String {
    format!("--env TRIAL={}", cluster.path("").display())
}

#[test]
fn mpirun_starts_its_processes_on_all_nodes_of_the_gang() {
    needs!(NAMESPACES, OPENMPI);
    let cluster = Cluster::new(3, LOST_AFTER_S);
    std::fs::write(cluster.path("sum.py"), SUM).unwrap();
    let options = format!("--wait --gang 6 --launcher mpirun --output-file out {}", trial(&cluster));
    for command in [&["python3", "sum.py"][..], &["mpirun", "python3", "sum.py"]] {
        let code = cluster.submit(&options, command).stdout(Stdio::null()).status().unwrap().code();
        let output = cluster.read("out");
        assert_eq!((code, sums(&output)), (Some(0), expected(3)), "{command:?}: {output}");
        std::fs::remove_file(cluster.path("out")).unwrap();
        until("the end of all processes", LIMIT, || survivors(&cluster, 1).is_empty().then_some(()));
    }
}

#[test]
fn mpirun_in_a_batch_script_uses_the_nodes_of_the_job() {
    needs!(NAMESPACES, OPENMPI);
    let cluster = Cluster::new(2, LOST_AFTER_S);
    std::fs::write(cluster.path("sum.py"), SUM).unwrap();
    let script =
        "#!/bin/sh\n#SBATCH --nodes=2 --ntasks-per-node=2\nmpirun python3 sum.py && mpirun -np 1 hostname\n";
    std::fs::write(cluster.path("job.sh"), script).unwrap();
    let folder = cluster.path("").display().to_string();
    let words = ["sbatch", "--wait", "-D", &folder, "-o", "out", &format!("{folder}/job.sh")];
    let code = cluster.wharf(&words).stdout(Stdio::null()).status().unwrap().code();
    let output = cluster.read("out");
    assert_eq!((code, sums(&output)), (Some(0), expected(2)), "{output}");
    assert!(output.trim_end().ends_with("nd1"), "{output}");
}

#[test]
fn a_process_that_fails_on_another_node_fails_the_job_with_its_code() {
    needs!(NAMESPACES, OPENMPI);
    let cluster = Cluster::new(2, LOST_AFTER_S);
    let script = "if [ $OMPI_COMM_WORLD_RANK = 3 ]; then exit 7; fi; sleep 600";
    let options = format!("--wait --gang 4 --launcher mpirun --output-file out {}", trial(&cluster));
    let code = cluster.submit(&options, &["sh", "-c", script]).stdout(Stdio::null()).status().unwrap().code();
    assert_eq!(code, Some(7), "{}", cluster.read("out"));
    until("the end of all processes", LIMIT, || survivors(&cluster, 1).is_empty().then_some(()));
}

#[test]
fn processes_on_other_nodes_save_before_a_stop_and_none_is_left() {
    needs!(NAMESPACES, OPENMPI);
    let cluster = Cluster::new(2, LOST_AFTER_S);
    let script = "trap 'echo saved $OMPI_COMM_WORLD_RANK >> trail; exit 0' TERM; echo up $OMPI_COMM_WORLD_RANK >> trail; \
                  while :; do sleep 0.1; done";
    let options = format!("--gang 4 --launcher mpirun --output-file out {}", trial(&cluster));
    super::submitted(cluster.submit(&options, &["sh", "-c", script]));
    let count = |word: &str| cluster.read("trail").lines().filter(|line| line.starts_with(word)).count();
    until("all processes", LIMIT, || (count("up") == 4).then_some(()));
    cluster.say(&["cancel", "0"]);
    until("the end of the job", LIMIT, || {
        history(&cluster, "0").last()?.1.contains("cancelled").then_some(())
    });
    until("the end of all processes", LIMIT, || survivors(&cluster, 1).is_empty().then_some(()));
    assert_eq!(count("saved"), 4, "{}{}", cluster.read("trail"), cluster.read("out"));
}
