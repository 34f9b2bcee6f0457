//! Which scope or role each rpc needs. An rpc that is not in the table is refused.

use wharf_proto::Role;
use wharf_proto::tonic::Status;

use super::identity::{Identity, Scope, role_name};

/// Who may call an rpc. What only a job's owner may do, the rpc itself checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// A person's token with at least this scope.
    Scope(Scope),
    /// The same with the scope `submit`, or the token of a task.
    SubmitOrTask,
    /// Workers with a certificate.
    Certificate,
    /// Workers with a join token or a certificate.
    Worker,
}

const READ: Need = Need::Scope(Scope::ReadOnly);
const SUBMIT: Need = Need::Scope(Scope::Submit);
const OPERATE: Need = Need::Scope(Scope::Operate);
const ADMIN: Need = Need::Scope(Scope::Administer);

/// All rpcs, by path.
const RPCS: &[(&str, Need)] = &[
    ("/wharf.v1.Cluster/Submit", SUBMIT),
    ("/wharf.v1.Cluster/ListJobs", READ),
    ("/wharf.v1.Cluster/GetJob", READ),
    ("/wharf.v1.Cluster/ChangeJobs", SUBMIT),
    ("/wharf.v1.Cluster/ListNodes", READ),
    ("/wharf.v1.Cluster/ChangeNode", OPERATE),
    ("/wharf.v1.Cluster/Explain", READ),
    ("/wharf.v1.Cluster/Logs", READ),
    ("/wharf.v1.Cluster/Wait", READ),
    ("/wharf.v1.Cluster/Info", READ),
    ("/wharf.v1.Cluster/Exec", Need::SubmitOrTask),
    ("/wharf.v1.Cluster/Usage", READ),
    ("/wharf.v1.Cluster/ListDetails", READ),
    ("/wharf.v1.Cluster/SetPolicy", ADMIN),
    ("/wharf.v1.Cluster/GetPolicy", READ),
    ("/wharf.v1.Cluster/SetLimits", ADMIN),
    ("/wharf.v1.Cluster/GetLimits", READ),
    ("/wharf.v1.Cluster/Export", READ),
    ("/wharf.v1.Cluster/GetDemand", READ),
    ("/wharf.v1.Cluster/GetMetrics", READ),
    ("/wharf.v1.Workers/Attach", Need::Certificate),
    ("/wharf.v1.Access/Join", Need::Worker),
    ("/wharf.v1.Access/CreateToken", ADMIN),
    ("/wharf.v1.Access/ListTokens", ADMIN),
    ("/wharf.v1.Access/RevokeToken", ADMIN),
    ("/wharf.v1.Access/RenewToken", ADMIN),
    ("/wharf.v1.Access/ReadAudit", ADMIN),
];

/// Fails where an identity may not call an rpc.
pub(crate) fn check(path: &str, identity: &Identity) -> Result<(), Status> {
    let Some(&(_, need)) = RPCS.iter().find(|(known, _)| *known == path) else {
        return Err(Status::unimplemented(format!(
            "this head does not support {path}; it may be another version"
        )));
    };
    let may = match need {
        Need::Scope(scope) => identity.scope >= scope,
        Need::SubmitOrTask => identity.scope >= Scope::Submit || identity.task.is_some(),
        Need::Certificate => identity.role == Role::Worker && identity.is_certified,
        Need::Worker => identity.role == Role::Worker,
    };
    if may {
        return Ok(());
    }
    let needed = match need {
        Need::Scope(Scope::Administer) => "an admin's token",
        Need::Scope(Scope::Operate) => "an admin's token with the scope operate or admin",
        Need::Scope(_) | Need::SubmitOrTask if identity.role == Role::Worker => {
            "a user's or an admin's token"
        }
        Need::Scope(_) | Need::SubmitOrTask => "a token with the scope submit",
        Need::Certificate => "a worker's certificate, which `wharf worker` gets with a join token",
        Need::Worker => "a worker's join token (`wharf token create --role worker`)",
    };
    let (_, rpc) = path.rsplit_once('/').unwrap_or(("", path));
    let (role, scope) = (role_name(identity.role), identity.scope.name());
    Err(Status::permission_denied(format!(
        "permission denied: {rpc} needs {needed}, this is a token with the role {role} and the scope {scope}"
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
    fn every_scope_permits_its_own_rpcs_and_no_others() {
        let token = |role, scope, is_certified| Identity {
            role,
            user: "ann".into(),
            node: None,
            is_certified,
            may_replace: false,
            scope: Scope::of(role, scope),
            id: String::new(),
            key: None,
            address: None,
            task: None,
        };
        let identities = [
            token(Role::Admin, None, false),
            token(Role::Admin, Some(Scope::Operate), false),
            token(Role::User, None, false),
            token(Role::User, Some(Scope::Administer), false),
            token(Role::Admin, Some(Scope::ReadOnly), false),
            token(Role::Worker, Some(Scope::Administer), false),
            token(Role::Worker, None, true),
            Identity::of_task(3, 1, None),
        ];
        for (path, need) in RPCS {
            let may: Vec<bool> = identities.iter().map(|who| check(path, who).is_ok()).collect();
            let expected = match *need {
                ADMIN => [true, false, false, false, false, false, false, false],
                OPERATE => [true, true, false, false, false, false, false, false],
                SUBMIT => [true, true, true, true, false, false, false, false],
                Need::SubmitOrTask => [true, true, true, true, false, false, false, true],
                READ => [true, true, true, true, true, false, false, false],
                Need::Certificate => [false, false, false, false, false, false, true, false],
                Need::Worker => [false, false, false, false, false, true, true, false],
                Need::Scope(Scope::None) => panic!("{path} needs nothing"),
            };
            assert_eq!(may, expected, "{path}");
        }
        assert!(check("/wharf.v1.Cluster/Unheard", &identities[0]).is_err());
    }
}
