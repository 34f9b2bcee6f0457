//! The rpcs about tokens, certificates and the audit log.

use std::sync::Arc;

use wharf_job::check::is_name;
use wharf_proto::access_server::Access as AccessRpc;
use wharf_proto::tonic::{Request, Response, Status};
use wharf_proto::{
    CreateTokenReply, CreateTokenRequest, JoinReply, JoinRequest, ListTokensReply, ListTokensRequest,
    ReadAuditReply, ReadAuditRequest, RenewTokenReply, RenewTokenRequest, RevokeTokenReply,
    RevokeTokenRequest, Role,
};
use wharf_tls::{Token, sha256};

use super::access::{Access, new_id};
use super::error::AccessError;
use super::identity::{Identity, Scope, bad_name};
use super::tokens::{Credential, CredentialKind};
use crate::auth::audit::Subject;
use crate::rpc::network::Network;

/// The longest life of a token that expires.
const TTL_MAX_S: f64 = 10.0 * 366.0 * 24.0 * 3600.0;
/// The default life of a join token.
const JOIN_TTL_S: f64 = 24.0 * 3600.0;
/// Networks of one token.
const ADDRESSES_MAX: usize = 64;

/// The rpcs of `Access`.
pub(crate) struct AccessService(pub(crate) Arc<Access>);

fn failed(error: AccessError) -> Status {
    // The words name a file of the head's; what the system said about it is part of the story.
    let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
    Status::internal(format!("{error}{}", source.unwrap_or_default()))
}

fn unknown(id: &str) -> Status {
    Status::not_found(format!("there is no token `{}`; `wharf token list` shows all", id.escape_debug()))
}

#[wharf_proto::tonic::async_trait]
impl AccessRpc for AccessService {
    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinReply>, Status> {
        let identity = Identity::of(&request)?;
        let request = request.into_inner();
        let joined = self.0.join(&identity, &request);
        let objects = vec![format!("node {}", request.node.escape_debug())];
        self.0.audit.record(Subject::Access, &identity, "join", objects, &joined);
        joined.map(Response::new)
    }

    async fn create_token(
        &self,
        request: Request<CreateTokenRequest>,
    ) -> Result<Response<CreateTokenReply>, Status> {
        let identity = Identity::of(&request)?;
        let created = self.0.create_token(&request.into_inner());
        let summary = created.as_ref().ok().and_then(|reply| reply.summary.as_ref());
        let objects = summary.map(|token| {
            let user = Some(format!("user {}", token.user)).filter(|_| !token.user.is_empty());
            [format!("token {}", token.id)].into_iter().chain(user).collect()
        });
        self.0.audit.record(
            Subject::Access,
            &identity,
            "token-create",
            objects.unwrap_or_default(),
            &created,
        );
        created.map(Response::new)
    }

    async fn list_tokens(&self, _: Request<ListTokensRequest>) -> Result<Response<ListTokensReply>, Status> {
        let tokens = self.0.table().credentials().iter().map(Credential::summary).collect();
        Ok(Response::new(ListTokensReply { tokens }))
    }

    async fn revoke_token(
        &self,
        request: Request<RevokeTokenRequest>,
    ) -> Result<Response<RevokeTokenReply>, Status> {
        let identity = Identity::of(&request)?;
        let id = request.into_inner().id;
        let revoked = self.0.revoke_token(&id);
        let objects = vec![format!("token {id}")];
        self.0.audit.record(Subject::Access, &identity, "token-revoke", objects, &revoked);
        revoked.map(|()| Response::new(RevokeTokenReply {}))
    }

    async fn renew_token(
        &self,
        request: Request<RenewTokenRequest>,
    ) -> Result<Response<RenewTokenReply>, Status> {
        let identity = Identity::of(&request)?;
        let request = request.into_inner();
        let renewed = self.0.renew_token(&request);
        let objects = vec![format!("token {}", request.id)];
        self.0.audit.record(Subject::Access, &identity, "token-renew", objects, &renewed);
        renewed.map(Response::new)
    }

    async fn read_audit(
        &self,
        request: Request<ReadAuditRequest>,
    ) -> Result<Response<ReadAuditReply>, Status> {
        let (audit, request) = (self.0.audit.clone(), request.into_inner());
        let read = tokio::task::spawn_blocking(move || audit.read(&request)).await;
        let read = read.map_err(|error| Status::internal(error.to_string()))?;
        read.map(Response::new)
            .map_err(|error| Status::internal(format!("cannot read the audit log: {error}")))
    }
}

impl Access {
    /// Signs a worker's key for a node.
    fn join(&self, identity: &Identity, request: &JoinRequest) -> Result<JoinReply, Status> {
        let node = &request.node;
        if !is_name(node) {
            return Err(Status::invalid_argument(bad_name("node", node)));
        }
        if identity.node.as_ref().is_some_and(|own| own != node) {
            let own = identity.node.as_deref().unwrap_or_default();
            let reason = format!("permission denied: this worker may join as `{own}`, not as `{node}`");
            return Err(Status::permission_denied(reason));
        }
        let signed = self.authority.sign(&request.csr, node, self.worker_life);
        let (certificate, key) =
            signed.ok_or_else(|| Status::invalid_argument("malformed certificate signing request"))?;
        let now_s = self.now_s();
        let mut table = self.table();
        let others = || table.certificates_of(node, now_s).filter(|known| known.key != Some(key));
        let is_taken = !identity.is_certified && others().next().is_some();
        if is_taken && !identity.may_replace {
            let id = others().map(|known| known.id.as_str()).collect::<Vec<_>>().join(" ");
            return Err(Status::already_exists(format!(
                "node `{node}` has already joined; if its state is lost, an admin runs `wharf token revoke {id}`, \
                 or makes a token for it with `--node {node} --replace`"
            )));
        }
        let token = table.get(&identity.id).filter(|_| !identity.is_certified).cloned();
        if let Some(token) = token.filter(|token| !token.joined.contains(node)) {
            let used = token.joined.len();
            if token.nodes_max.is_some_and(|most| used >= most as usize) {
                return Err(Status::permission_denied(format!(
                    "permission denied: this join token is used up: it has joined {}; a token joins one node unless it \
                     is created with `--nodes N`",
                    token.joined.join(", ")
                )));
            }
            if token.nodes_max.is_some() {
                table.change(&token.id, |token| token.joined.push(node.clone())).map_err(failed)?;
            }
        }
        if is_taken {
            table
                .remove(|known| {
                    known.kind == CredentialKind::Certificate && known.node.as_deref() == Some(node)
                })
                .map_err(failed)?;
        }
        let life_s = self.worker_life.as_secs_f64();
        let credential = Credential {
            kind: CredentialKind::Certificate,
            node: Some(node.clone()),
            hash: sha256(&certificate),
            key: Some(key),
            expires_s: Some(now_s + life_s),
            ..Credential::token(new_id().map_err(failed)?, Role::Worker, &Token::new(""), now_s)
        };
        table.add(credential, now_s).map_err(failed)?;
        drop(table);
        self.table_changed();
        let ca = self.authority.certificate().to_vec();
        Ok(JoinReply { certificate, ca, renew_in_s: self.renew_after.as_secs_f64(), expires_in_s: life_s })
    }

    fn create_token(&self, request: &CreateTokenRequest) -> Result<CreateTokenReply, Status> {
        let role = Role::try_from(request.role)
            .map_err(|_| Status::invalid_argument("unknown role; expected admin, user or worker"))?;
        check_token(request, role)?;
        let expires_s = self.expiry(role, request.ttl_s, request.permanent)?;
        let now_s = self.now_s();
        let token = Token::generate(self.fingerprint()).map_err(|error| failed(error.into()))?;
        let node = Some(&request.node).filter(|node| !node.is_empty()).cloned();
        let is_worker = role == Role::Worker;
        let credential = Credential {
            user: request.user.clone(),
            node,
            may_replace: request.replace,
            expires_s,
            scope: Scope::from_wire(request.scope()),
            addresses: request.addresses.clone(),
            nodes_max: is_worker.then_some(request.nodes.max(1)),
            ..Credential::token(new_id().map_err(failed)?, role, &token, now_s)
        };
        let summary = Some(credential.summary());
        self.table().add(credential, now_s).map_err(failed)?;
        Ok(CreateTokenReply { token: token.reveal().to_owned(), summary })
    }

    /// When a token expires that is to live that long; `None`: never.
    fn expiry(&self, role: Role, ttl_s: f64, is_permanent: bool) -> Result<Option<f64>, Status> {
        if !ttl_s.is_finite() || !(0.0..=TTL_MAX_S).contains(&ttl_s) {
            return Err(Status::invalid_argument("the expiry of a token is at most ten years, or `never`"));
        }
        let ttl_s = match role {
            _ if is_permanent => None,
            _ if ttl_s > 0.0 => Some(ttl_s),
            Role::Worker => Some(JOIN_TTL_S),
            Role::Admin | Role::User => self.token_life.map(|life| life.as_secs_f64()),
        };
        Ok(ttl_s.map(|ttl_s| self.now_s() + ttl_s))
    }

    /// Ends a token, or all certificates of a worker's key.
    fn revoke_token(&self, id: &str) -> Result<(), Status> {
        let mut table = self.table();
        let key = table.get(id).ok_or_else(|| unknown(id))?.key;
        let is_revoked = |known: &Credential| known.id == id || key.is_some() && known.key == key;
        table.remove(is_revoked).map_err(failed)?;
        drop(table);
        self.table_changed();
        Ok(())
    }

    fn renew_token(&self, request: &RenewTokenRequest) -> Result<RenewTokenReply, Status> {
        let id = &request.id;
        let known = self.table().get(id).cloned().ok_or_else(|| unknown(id))?;
        if known.kind == CredentialKind::Certificate {
            return Err(Status::failed_precondition("workers renew their certificates themselves"));
        }
        let expires_s = self.expiry(known.role.into(), request.ttl_s, request.permanent)?;
        let changed = self.table().change(id, |known| known.expires_s = expires_s).map_err(failed)?;
        let summary = Some(changed.ok_or_else(|| unknown(id))?.summary());
        self.table_changed();
        Ok(RenewTokenReply { summary })
    }
}

/// Whether the parts of a new token fit its role.
fn check_token(request: &CreateTokenRequest, role: Role) -> Result<(), Status> {
    let wrong = |text: &str| Err(Status::invalid_argument(text));
    let (user, node) = (&request.user, &request.node);
    match role {
        Role::Worker if !user.is_empty() => return wrong("a worker's token has no user"),
        Role::Worker if !node.is_empty() && !is_name(node) => return wrong(&bad_name("node", node)),
        Role::Worker if request.replace && node.is_empty() => {
            return wrong("a token that may replace a node names the node");
        }
        Role::Worker if !node.is_empty() && request.nodes > 1 => {
            return wrong("a token for one node cannot join several");
        }
        Role::Worker if request.scope() != wharf_proto::Scope::WholeRole => {
            return wrong("a worker's token has no scope");
        }
        Role::Admin | Role::User if !node.is_empty() || request.nodes > 0 || request.replace => {
            return wrong("only a worker's token is for nodes");
        }
        Role::Admin | Role::User if !is_name(user) => return wrong(&bad_name("user", user)),
        Role::User if request.scope() as i32 > wharf_proto::Scope::SubmitOwn as i32 => {
            return wrong("a user's token has the scope read-only or submit; others need `--role admin`");
        }
        Role::Admin | Role::User | Role::Worker => {}
    }
    if wharf_proto::Scope::try_from(request.scope).is_err() {
        return wrong("a token has the scope read-only, submit, operate or admin");
    }
    if request.addresses.len() > ADDRESSES_MAX {
        return wrong(&format!("a token names up to {ADDRESSES_MAX} addresses"));
    }
    for address in &request.addresses {
        address.parse::<Network>().map_err(|error| Status::invalid_argument(error.to_string()))?;
    }
    Ok(())
}
