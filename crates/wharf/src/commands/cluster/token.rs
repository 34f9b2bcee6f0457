//! `wharf token`: creates, lists, renews and revokes tokens.

use serde::Serialize;
use wharf_client::unix_s;
use wharf_proto::access_client::AccessClient;
use wharf_proto::{
    CreateTokenRequest, ListTokensRequest, RenewTokenRequest, RevokeTokenRequest, Role, Scope, TokenSummary,
    token_summary,
};
use wharf_tls::create_private;

use super::connect::{refused, with_connection};
use crate::args::{
    OutputFormat, RoleArg, ScopeArg, TokenCommand, TokenCreateArgs, TokenListArgs, TokenRenewArgs,
    TokenRevokeArgs, Ttl,
};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Does what the arguments say.
pub(in crate::commands) fn token(command: &TokenCommand, terminal: &Terminal) -> Result<Exit, CliError> {
    match command {
        TokenCommand::Create(args) => create(args, terminal),
        TokenCommand::List(args) => list(args, terminal),
        TokenCommand::Renew(args) => renew(args, terminal),
        TokenCommand::Revoke(args) => revoke(args, terminal),
    }
}

fn create(args: &TokenCreateArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    if let Some(path) = args.to.as_ref().filter(|path| path.exists()) {
        return Err(CliError::usage(format!("`{}` already exists", path.display())));
    }
    let role = match args.role {
        RoleArg::Admin => Role::Admin,
        RoleArg::User => Role::User,
        RoleArg::Worker => Role::Worker,
    };
    let scope = args.scope.map_or(Scope::WholeRole, |scope| match scope {
        ScopeArg::ReadOnly => Scope::ReadOnly,
        ScopeArg::Submit => Scope::SubmitOwn,
        ScopeArg::Operate => Scope::Operate,
        ScopeArg::Admin => Scope::Administer,
    });
    let (ttl_s, permanent) = life(args.ttl);
    let request = CreateTokenRequest {
        role: role.into(),
        user: args.user.clone().unwrap_or_default(),
        node: args.node.clone().unwrap_or_default(),
        ttl_s,
        permanent,
        scope: scope.into(),
        addresses: args.from.iter().map(ToString::to_string).collect(),
        nodes: args.nodes.unwrap_or_default(),
        replace: args.replace,
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
        OutputFormat::Table | OutputFormat::Plain | OutputFormat::Csv => {
            terminal.data(&(reply.token + "\n"))?
        }
    }
    Ok(Exit::Ok)
}

/// Seconds that a token lives, where they are given, and whether it never expires.
fn life(ttl: Option<Ttl>) -> (f64, bool) {
    match ttl {
        None => (0.0, false),
        Some(Ttl::Seconds(ttl_s)) => (ttl_s, false),
        Some(Ttl::Never) => (0.0, true),
    }
}

/// A token or certificate as JSON.
#[derive(Serialize)]
struct TokenRow {
    id: String,
    kind: &'static str,
    role: &'static str,
    user: Option<String>,
    node: Option<String>,
    /// What it may be used for; none: everything that its role may do.
    scope: Option<&'static str>,
    /// Networks that it may be used from; none: from anywhere.
    addresses: Vec<String>,
    /// Nodes that have joined with it.
    joined: Vec<String>,
    created_s: f64,
    expires_s: Option<f64>,
    last_used_s: Option<f64>,
    last_address: Option<String>,
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
            scope: match token.scope() {
                Scope::WholeRole => None,
                Scope::ReadOnly => Some("read-only"),
                Scope::SubmitOwn => Some("submit"),
                Scope::Operate => Some("operate"),
                Scope::Administer => Some("admin"),
            },
            id: token.id,
            user: said(token.user),
            node: said(token.node),
            addresses: token.addresses,
            joined: token.joined,
            created_s: token.created_s,
            expires_s: (token.expires_s > 0.0).then_some(token.expires_s),
            last_used_s: (token.last_used_s > 0.0).then_some(token.last_used_s),
            last_address: said(token.last_address),
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
    let now_s = unix_s();
    let header = ["id", "kind", "role", "scope", "user", "node", "expires", "last used", "from"];
    let mut grid = Grid::new(header);
    for row in &rows {
        let expires = match row.expires_s {
            None => "never".to_owned(),
            Some(end_s) if end_s <= now_s => "expired".to_owned(),
            Some(end_s) => format!("in {}", wharf_report::human::duration(end_s - now_s)),
        };
        let used = row.last_used_s.map_or_else(String::new, |used_s| {
            let ago = wharf_report::human::duration((now_s - used_s).max(0.0));
            format!("{ago} ago at {}", row.last_address.as_deref().unwrap_or("an unknown address"))
        });
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let node = row.node.clone().unwrap_or_else(|| row.joined.join(" "));
        let (user, scope, from) = (text(&row.user), row.scope.unwrap_or_default(), row.addresses.join(" "));
        grid.push([&row.id, row.kind, row.role, scope, &user, &node, &expires, &used, &from]);
    }
    terminal.grid(&grid)?;
    let endless = rows.iter().filter(|row| row.expires_s.is_none()).count();
    if endless > 0 {
        terminal
            .note(&format!("{endless} without expiry; `wharf token renew ID --ttl 90d` gives a token one"));
    }
    Ok(Exit::Ok)
}

fn renew(args: &TokenRenewArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let (ttl_s, permanent) = life(args.ttl);
    with_connection(&args.home, async |connection| {
        let mut client = AccessClient::new(connection);
        for id in &args.ids {
            let request = RenewTokenRequest { id: id.clone(), ttl_s, permanent };
            let reply = client.renew_token(request).await.map_err(refused)?.into_inner();
            let row = TokenRow::from(reply.summary.unwrap_or_default());
            let until = row.expires_s.map_or_else(
                || "never expires".to_owned(),
                |end_s| format!("expires in {}", wharf_report::human::duration(end_s - unix_s())),
            );
            terminal.note(&format!("{id} {until}"));
        }
        Ok(Exit::Ok)
    })
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
