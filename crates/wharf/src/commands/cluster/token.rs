//! `wharf token`: makes, lists and ends tokens.

use serde::Serialize;
use wharf_proto::access_client::AccessClient;
use wharf_proto::{
    CreateTokenRequest, ListTokensRequest, RevokeTokenRequest, Role, TokenSummary, token_summary,
};
use wharf_tls::create_private;

use super::connect::{refused, with_connection};
use crate::args::{OutputFormat, RoleArg, TokenCommand, TokenCreateArgs, TokenListArgs, TokenRevokeArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// A join token is for a day unless told otherwise: machines are added, and then it is not needed any more.
const JOIN_TTL_S: f64 = 86_400.0;

/// Does what the arguments say.
pub(in crate::commands) fn token(command: &TokenCommand, terminal: &Terminal) -> Result<Exit, CliError> {
    match command {
        TokenCommand::Create(args) => create(args, terminal),
        TokenCommand::List(args) => list(args, terminal),
        TokenCommand::Revoke(args) => revoke(args, terminal),
    }
}

fn create(args: &TokenCreateArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    if let Some(path) = args.to.as_ref().filter(|path| path.exists()) {
        return Err(CliError::usage(format!("`{}` is there already", path.display())));
    }
    let role = match args.role {
        RoleArg::Admin => Role::Admin,
        RoleArg::User => Role::User,
        RoleArg::Worker => Role::Worker,
    };
    let default_ttl_s = if role == Role::Worker { JOIN_TTL_S } else { 0.0 };
    let request = CreateTokenRequest {
        role: role.into(),
        user: args.user.clone().unwrap_or_default(),
        node: args.node.clone().unwrap_or_default(),
        ttl_s: args.ttl.unwrap_or(default_ttl_s),
    };
    let reply = with_connection(&args.home, async |connection| {
        let mut client = AccessClient::new(connection);
        Ok(client.create_token(request).await.map_err(refused)?.into_inner())
    })?;
    let row = TokenRow::from(reply.summary.unwrap_or_default());
    if let Some(path) = &args.to {
        create_private(path, &format!("{}\n", reply.token)).map_err(|error| CliError::write(path, error))?;
        terminal.note(&format!("token {} is in {}", row.id, path.display()));
        return Ok(Exit::Ok);
    }
    match terminal.format {
        OutputFormat::Json => {
            terminal.json(&serde_json::json!({ "schema": 1, "token": reply.token, "summary": row }))?;
        }
        OutputFormat::Table | OutputFormat::Plain => terminal.data(&(reply.token + "\n"))?,
    }
    Ok(Exit::Ok)
}

/// A token or certificate as JSON.
#[derive(Serialize)]
struct TokenRow {
    id: String,
    kind: &'static str,
    role: &'static str,
    user: Option<String>,
    node: Option<String>,
    created_s: f64,
    expires_s: Option<f64>,
}

impl From<TokenSummary> for TokenRow {
    fn from(token: TokenSummary) -> Self {
        let said = |text: String| (!text.is_empty()).then_some(text);
        Self {
            kind: match token.kind() {
                token_summary::Kind::Token => "token",
                token_summary::Kind::Certificate => "certificate",
            },
            role: match token.role() {
                Role::Admin => "admin",
                Role::User => "user",
                Role::Worker => "worker",
            },
            id: token.id,
            user: said(token.user),
            node: said(token.node),
            created_s: token.created_s,
            expires_s: (token.expires_s > 0.0).then_some(token.expires_s),
        }
    }
}

fn list(args: &TokenListArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let tokens = with_connection(&args.home, async |connection| {
        let mut client = AccessClient::new(connection);
        Ok(client.list_tokens(ListTokensRequest {}).await.map_err(refused)?.into_inner().tokens)
    })?;
    let rows: Vec<TokenRow> = tokens.into_iter().map(TokenRow::from).collect();
    if terminal.format == OutputFormat::Json {
        terminal.json(&serde_json::json!({ "schema": 1, "tokens": rows }))?;
        return Ok(Exit::Ok);
    }
    let now_s = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64());
    let mut grid = Grid::new(["id", "kind", "role", "user", "node", "expires"]);
    for row in &rows {
        let expires = match row.expires_s {
            None => "never".to_owned(),
            Some(end_s) if end_s <= now_s => "expired".to_owned(),
            Some(end_s) => format!("in {}", wharf_report::human::duration(end_s - now_s)),
        };
        let (user, node) = (row.user.as_deref().unwrap_or_default(), row.node.as_deref().unwrap_or_default());
        grid.push([&row.id, row.kind, row.role, user, node, &expires]);
    }
    terminal.grid(&grid)?;
    Ok(Exit::Ok)
}

fn revoke(args: &TokenRevokeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    with_connection(&args.home, async |connection| {
        let mut client = AccessClient::new(connection);
        for id in &args.ids {
            client.revoke_token(RevokeTokenRequest { id: id.clone() }).await.map_err(refused)?;
            terminal.note(&format!("{id} is revoked"));
        }
        Ok(Exit::Ok)
    })
}
