//! What is asked about tokens and certificates.

use std::sync::Arc;

use wharf_proto::access_server::Access as AccessRpc;
use wharf_proto::tonic::{Request, Response, Status};
use wharf_proto::{
    CreateTokenReply, CreateTokenRequest, JoinReply, JoinRequest, ListTokensReply, ListTokensRequest,
    RevokeTokenReply, RevokeTokenRequest, Role,
};
use wharf_tls::{Token, sha256};

use super::access::{Access, new_id};
use super::error::AccessError;
use super::identity::{Identity, bad_name, is_name};
use super::tokens::{Credential, Kind};
use crate::clock::unix_s;

/// The longest life of a token that has an end: what is longer is a mistake.
const TTL_MAX_S: f64 = 10.0 * 366.0 * 24.0 * 3600.0;

/// The rpcs of `Access`.
pub(crate) struct AccessService(pub(crate) Arc<Access>);

fn failed(error: AccessError) -> Status {
    // The words name a file of the head's; what the system said about it is part of the story.
    let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
    Status::internal(format!("{error}{}", source.unwrap_or_default()))
}

#[wharf_proto::tonic::async_trait]
impl AccessRpc for AccessService {
    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinReply>, Status> {
        let identity = Identity::of(&request)?;
        self.0.join(&identity, &request.into_inner()).map(Response::new)
    }

    async fn create_token(
        &self,
        request: Request<CreateTokenRequest>,
    ) -> Result<Response<CreateTokenReply>, Status> {
        self.0.create_token(&request.into_inner()).map(Response::new)
    }

    async fn list_tokens(&self, _: Request<ListTokensRequest>) -> Result<Response<ListTokensReply>, Status> {
        let tokens = self.0.table().credentials().iter().map(Credential::summary).collect();
        Ok(Response::new(ListTokensReply { tokens }))
    }

    async fn revoke_token(
        &self,
        request: Request<RevokeTokenRequest>,
    ) -> Result<Response<RevokeTokenReply>, Status> {
        let id = request.into_inner().id;
        match self.0.table().remove(|known| known.id == id).map_err(failed)? {
            0 => Err(Status::not_found(format!("there is no token `{id}`; `wharf token list` shows all"))),
            _ => Ok(Response::new(RevokeTokenReply {})),
        }
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
            signed.ok_or_else(|| Status::invalid_argument("the request for a certificate is not one"))?;
        let now_s = unix_s();
        let mut table = self.table();
        let others = || table.certificates_of(node, now_s).filter(|known| known.key != Some(key));
        if !identity.is_certified && others().next().is_some() {
            if !identity.may_replace {
                let id = others().map(|known| known.id.as_str()).collect::<Vec<_>>().join(" ");
                let reason = format!(
                    "node `{node}` has joined already; if its state is lost, an admin runs `wharf token revoke {id}`, \
                     or makes a token for it with `--node {node}`"
                );
                return Err(Status::already_exists(reason));
            }
            table
                .remove(|known| known.kind == Kind::Certificate && known.node.as_deref() == Some(node))
                .map_err(failed)?;
        }
        let life_s = self.worker_life.as_secs_f64();
        let credential = Credential {
            id: new_id().map_err(failed)?,
            kind: Kind::Certificate,
            role: Role::Worker.into(),
            user: String::new(),
            node: Some(node.clone()),
            may_replace: false,
            hash: sha256(&certificate),
            key: Some(key),
            created_s: now_s,
            expires_s: Some(now_s + life_s),
        };
        table.add(credential, now_s).map_err(failed)?;
        let ca = self.authority.certificate().to_vec();
        Ok(JoinReply { certificate, ca, renew_in_s: self.renew_after.as_secs_f64(), expires_in_s: life_s })
    }

    fn create_token(&self, request: &CreateTokenRequest) -> Result<CreateTokenReply, Status> {
        let role = Role::try_from(request.role)
            .map_err(|_| Status::invalid_argument("a token has the role admin, user or worker"))?;
        let (user, node) = (&request.user, &request.node);
        match role {
            Role::Worker if !user.is_empty() => {
                return Err(Status::invalid_argument("a worker's token is nobody's: it has no user"));
            }
            Role::Admin | Role::User if !node.is_empty() => {
                return Err(Status::invalid_argument("only a worker's token is for a node"));
            }
            Role::Admin | Role::User if !is_name(user) => {
                return Err(Status::invalid_argument(bad_name("user", user)));
            }
            Role::Worker if !node.is_empty() && !is_name(node) => {
                return Err(Status::invalid_argument(bad_name("node", node)));
            }
            Role::Admin | Role::User | Role::Worker => {}
        }
        if !request.ttl_s.is_finite() || !(0.0..=TTL_MAX_S).contains(&request.ttl_s) {
            return Err(Status::invalid_argument("a token lives up to ten years, or, with 0, without end"));
        }
        let now_s = unix_s();
        let token = Token::generate(self.fingerprint()).map_err(|error| failed(error.into()))?;
        let mut credential = Credential::token(new_id().map_err(failed)?, role, &token, now_s);
        credential.user.clone_from(user);
        credential.node = (!node.is_empty()).then(|| node.clone());
        credential.may_replace = credential.node.is_some();
        credential.expires_s = (request.ttl_s > 0.0).then_some(now_s + request.ttl_s);
        let summary = Some(credential.summary());
        self.table().add(credential, now_s).map_err(failed)?;
        Ok(CreateTokenReply { token: token.reveal().to_owned(), summary })
    }
}
