//! Which role each rpc needs. An rpc that is not in the table is nobody's.

use wharf_proto::Role;
use wharf_proto::tonic::Status;

use super::identity::{Identity, role_name};

/// Who may call an rpc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Admin,
    /// Users and administrators; what of it is only for a job's owner, the rpc itself checks.
    User,
    /// Workers with a certificate.
    Certificate,
    /// Workers with a join token or a certificate.
    Worker,
}

/// All rpcs, by path.
const RPCS: &[(&str, Need)] = &[
    ("/wharf.v1.Cluster/Submit", Need::User),
    ("/wharf.v1.Cluster/ListJobs", Need::User),
    ("/wharf.v1.Cluster/GetJob", Need::User),
    ("/wharf.v1.Cluster/ChangeJobs", Need::User),
    ("/wharf.v1.Cluster/ListNodes", Need::User),
    ("/wharf.v1.Cluster/ChangeNode", Need::Admin),
    ("/wharf.v1.Cluster/Explain", Need::User),
    ("/wharf.v1.Cluster/Logs", Need::User),
    ("/wharf.v1.Cluster/Wait", Need::User),
    ("/wharf.v1.Cluster/Info", Need::User),
    ("/wharf.v1.Cluster/Exec", Need::User),
    ("/wharf.v1.Cluster/Usage", Need::User),
    ("/wharf.v1.Cluster/ListDetails", Need::User),
    ("/wharf.v1.Cluster/SetPolicy", Need::Admin),
    ("/wharf.v1.Cluster/GetPolicy", Need::User),
    ("/wharf.v1.Cluster/SetLimits", Need::Admin),
    ("/wharf.v1.Cluster/GetLimits", Need::User),
    ("/wharf.v1.Cluster/Export", Need::User),
    ("/wharf.v1.Cluster/GetDemand", Need::User),
    ("/wharf.v1.Workers/Attach", Need::Certificate),
    ("/wharf.v1.Access/Join", Need::Worker),
    ("/wharf.v1.Access/CreateToken", Need::Admin),
    ("/wharf.v1.Access/ListTokens", Need::Admin),
    ("/wharf.v1.Access/RevokeToken", Need::Admin),
];

/// Whether somebody may call an rpc.
pub(crate) fn check(path: &str, identity: &Identity) -> Result<(), Status> {
    let Some(&(_, need)) = RPCS.iter().find(|(known, _)| *known == path) else {
        return Err(Status::unimplemented(format!("this head knows no {path}; is it of another version?")));
    };
    let may = match need {
        Need::Admin => identity.role == Role::Admin,
        Need::User => matches!(identity.role, Role::Admin | Role::User),
        Need::Certificate => identity.role == Role::Worker && identity.is_certified,
        Need::Worker => identity.role == Role::Worker,
    };
    if may {
        return Ok(());
    }
    let needed = match need {
        Need::Admin => "an admin's token",
        Need::User => "a user's or an admin's token",
        Need::Certificate => "a worker's certificate, which `wharf worker` gets with a join token",
        Need::Worker => "a worker's join token (`wharf token create --role worker`)",
    };
    let (_, rpc) = path.rsplit_once('/').unwrap_or(("", path));
    let shown = role_name(identity.role);
    Err(Status::permission_denied(format!(
        "permission denied: {rpc} needs {needed}, this is a token of the role {shown}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTO: &str = include_str!("../../../proto/proto/wharf.proto");

    /// The paths of all rpcs in the contract.
    fn contract() -> Vec<String> {
        let mut service = "";
        let mut paths = Vec::new();
        for line in PROTO.lines() {
            if let Some(rest) = line.strip_prefix("service ") {
                service = rest.trim_end_matches(" {");
            } else if let Some(rest) = line.trim_start().strip_prefix("rpc ") {
                paths.push(format!("/wharf.v1.{service}/{}", rest.split_once('(').unwrap().0));
            }
        }
        paths
    }

    #[test]
    fn every_rpc_of_the_contract_has_a_row_and_every_row_an_rpc() {
        let mut rows: Vec<String> = RPCS.iter().map(|(path, _)| (*path).to_owned()).collect();
        let mut rpcs = contract();
        rows.sort();
        rpcs.sort();
        assert_eq!(rows, rpcs);
    }

    #[test]
    fn every_role_may_do_its_own_and_nothing_else() {
        let somebody = |role, is_certified| Identity {
            role,
            user: "ann".into(),
            node: None,
            is_certified,
            may_replace: false,
        };
        let admin = somebody(Role::Admin, false);
        let user = somebody(Role::User, false);
        let joining = somebody(Role::Worker, false);
        let worker = somebody(Role::Worker, true);
        for (path, need) in RPCS {
            let may = [&admin, &user, &joining, &worker].map(|who| check(path, who).is_ok());
            let expected = match need {
                Need::Admin => [true, false, false, false],
                Need::User => [true, true, false, false],
                Need::Certificate => [false, false, false, true],
                Need::Worker => [false, false, true, true],
            };
            assert_eq!(may, expected, "{path}");
        }
        assert!(check("/wharf.v1.Cluster/Unheard", &admin).is_err());
    }
}
