//! Whether the variables and secrets of a job can be given to its tasks.

use wharf_proto::JobSpec;

use super::{CheckError, Problem, check_text, wrong};

/// Secrets of a job, and bytes of each.
const SECRETS_MAX: usize = 64;
const SECRET_BYTES_MAX: usize = 64 * 1024;

/// Checks the secrets of a job that is submitted.
pub(super) fn check_secrets(spec: &JobSpec) -> Result<(), CheckError> {
    let Some(secrets) = &spec.secrets else { return Ok(()) };
    check_environment("secrets", &secrets.values)?;
    if secrets.values.len() > SECRETS_MAX {
        return wrong("secrets", Problem::Secrets("a job has at most 64 secrets"));
    }
    for (name, value) in &secrets.values {
        let field = format!("secrets.{name}");
        if value.len() > SECRET_BYTES_MAX {
            return wrong(&field, Problem::Secrets("a secret has at most 64 KiB"));
        }
        if spec.env.contains_key(name) {
            return wrong(&field, Problem::Secrets("it is also a variable of `env`; remove one of them"));
        }
    }
    Ok(())
}

/// Checks the names and values of variables.
pub(super) fn check_environment<'a>(
    field: &str,
    env: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Result<(), CheckError> {
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return wrong(field, Problem::VariableName(name.replace('\0', "\\0")));
        }
        check_text(&format!("{field}.{name}"), value)?;
    }
    Ok(())
}
