//! The token of a task: commands beside the tasks of its own placement, and nothing else.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tokio_stream::StreamExt as _;
use wharf_client::{Access, Client, ClientError};
use wharf_proto::{ExecInput, ExecOpen, exec_input, exec_output};
use wharf_tls::Token;

use crate::cluster::{Cluster, write};
use crate::exec::until;

const WHARF: &str = env!("CARGO_BIN_EXE_wharf");

/// Runs a command in a task of a job; returns its exit code.
async fn exec(client: &Client, job_id: u32, rank: u32, command: &[&str]) -> Result<i32, ClientError> {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    let open = exec_input::Message::Open(ExecOpen { job_id, rank, command, ..ExecOpen::default() });
    let input = tokio_stream::iter([ExecInput { message: Some(open) }]).chain(tokio_stream::pending());
    let mut output = client.exec(input).await?;
    while let Some(said) = output.message().await? {
        match said.message {
            Some(exec_output::Message::ExitCode(code)) => return Ok(code),
            Some(exec_output::Message::Error(error)) => panic!("{error}"),
            _ => {}
        }
    }
    panic!("there was no exit code")
}

#[track_caller]
fn assert_denied<T>(done: Result<T, ClientError>, reason: &str) {
    match done {
        Err(ClientError::Denied { message, .. }) => assert!(message.contains(reason), "{message}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was allowed"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_token_runs_commands_beside_its_own_job_only() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let worker =
        |name| cluster.daemon(&["worker", "--node", name, "--devices", "cpu:2"], "accepted this worker");
    let _workers = [worker("n1"), worker("n2")];
    let (up, gate) = (cluster.pipe("up"), cluster.pipe("gate"));
    let script = format!(
        "#!/bin/sh\n{WHARF} mpi-agent n2 echo '$WHARF_NODE'; {WHARF} mpi-agent n3 true; echo $?\n\
         echo $WHARF_TASK_TOKEN_FILE; env | grep -c whf1; echo > {}; read line < {}\n",
        up.display(),
        gate.display()
    );
    std::fs::write(cluster.path("job.sh"), script).unwrap();
    let folder = cluster.folder.path().to_str().unwrap().to_owned();
    let job = cluster.path("job.sh").to_str().unwrap().to_owned();
    cluster.say(&["sbatch", "-N2", "-n2", "-D", &folder, "-o", "out", "-e", "errors", &job]);
    cluster.say(&["submit", "--", "sleep", "600"]);
    std::fs::read(&up).unwrap();
    until("both jobs to run", || cluster.say(&["jobs"]).matches("running").count() == 2);

    let said = std::fs::read_to_string(cluster.path("out")).unwrap();
    let [node, code, path, count] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert_eq!((node, code, count), ("n2", "3", "0"), "{said}");
    let errors = std::fs::read_to_string(cluster.path("errors")).unwrap();
    assert!(
        errors.contains("`n3` is not a node of job 0\nhint: its nodes are 127.0.0.1,127.0.0.1\n"),
        "{errors}"
    );
    let mode = Path::new(path).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);

    let token = Token::new(&std::fs::read_to_string(path).unwrap());
    let access = Access { address: cluster.address(), authority: token.authority().unwrap(), token };
    let client = Client::connect_to(&access).await.unwrap();
    assert_eq!(exec(&client, 0, 1, &["sh", "-c", "exit 7"]).await.unwrap(), 7);
    assert_denied(exec(&client, 1, 0, &["true"]).await, "this is the token of a task of job 0");
    assert_denied(client.info().await, "Info needs");
    assert_denied(client.list_nodes().await, "ListNodes needs");

    write(&gate, "go\n");
    until("the end of the job", || cluster.say(&["jobs", "--all"]).contains("finished"));
    let refused = exec(&client, 0, 1, &["true"]).await.unwrap_err();
    assert!(refused.to_string().contains("job 0 does not run"), "{refused}");
    until("the end of its token", || !Path::new(path).exists());
    cluster.say(&["cancel", "1"]);
    cluster.say(&["submit", "--wait", "--after-any", "1", "--", "true"]);
}
