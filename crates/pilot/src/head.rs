//! The head, as seen by the pilot manager.

use wharf_client::{Access, Client, ClientError};
use wharf_proto::access_client::AccessClient;
use wharf_proto::change_node_request::Change;
use wharf_proto::{
    ChangeNodeRequest, CreateTokenRequest, Demand, LimitUse, NodeSummary, RevokeTokenRequest, Role,
};

/// How long a pilot may wait in Slurm's queue before its worker cannot join any more: 30 days.
const TOKEN_TTL_S: f64 = 30.0 * 24.0 * 3600.0;

/// What is checked before a decision.
pub(crate) struct View {
    pub(crate) nodes: Vec<NodeSummary>,
    pub(crate) demands: Vec<Demand>,
    pub(crate) limits: Vec<LimitUse>,
}

/// A head that may go away and come back.
pub(crate) struct Head {
    access: Access,
    client: Option<Client>,
}

impl Head {
    pub(crate) fn new(access: Access) -> Self {
        Self { access, client: None }
    }

    /// A word that tells this cluster from others.
    pub(crate) fn key(&self) -> String {
        let mut key = self.access.authority.to_string();
        key.retain(|letter| letter.is_ascii_alphanumeric());
        key.truncate(16);
        key
    }

    async fn client(&mut self) -> Result<Client, ClientError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = Client::connect_to(&self.access).await?;
        self.client = Some(client.clone());
        Ok(client)
    }

    /// Reads all data for a decision.
    pub(crate) async fn look(&mut self) -> Result<View, ClientError> {
        let looked = self.try_look().await;
        if looked.is_err() {
            self.client = None;
        }
        looked
    }

    async fn try_look(&mut self) -> Result<View, ClientError> {
        let client = self.client().await?;
        let nodes = client.list_all_nodes().await?;
        let demands = client.demand().await?;
        let limits = client.limits("").await?.uses;
        Ok(View { nodes, demands, limits })
    }

    /// A token with which a worker can join as that node, also if one has before; and its id.
    pub(crate) async fn token(&self, node: &str) -> Result<(String, String), ClientError> {
        let mut client = AccessClient::new(self.access.connect().await?);
        let request = CreateTokenRequest {
            role: Role::Worker.into(),
            node: node.to_owned(),
            replace: true,
            // Slurm may keep the pilot waiting.
            ttl_s: TOKEN_TTL_S,
            ..CreateTokenRequest::default()
        };
        let reply = client.create_token(request).await?.into_inner();
        Ok((reply.token, reply.summary.unwrap_or_default().id))
    }

    /// Ends a token; one that is not there any more is no error.
    pub(crate) async fn revoke(&self, id: &str) -> Result<(), ClientError> {
        let mut client = AccessClient::new(self.access.connect().await?);
        match client.revoke_token(RevokeTokenRequest { id: id.to_owned() }).await.map_err(ClientError::from) {
            Ok(_) | Err(ClientError::Refused { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// States that nothing runs on a node any more, and that it is not expected back.
    pub(crate) async fn remove(&mut self, node: &str, reason: &str) -> Result<(), ClientError> {
        let (node, reason) = (node.to_owned(), reason.to_owned());
        let request = ChangeNodeRequest { node, change: Change::Remove.into(), reason };
        self.client().await?.change_node(request).await
    }
}
