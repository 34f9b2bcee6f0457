//! The token of the Ray cluster on a job's gang.

use wharf_proto::{JobSpec, Launcher};
use wharf_tls::{RandomError, random_hex};

/// Long enough to be unguessable.
const TOKEN_BYTES: usize = 32;

/// Creates the token of a job's Ray cluster, which protects its open ports.
pub(crate) fn give_token(spec: &mut JobSpec) -> Result<(), RandomError> {
    if spec.launcher() != Launcher::Ray {
        return Ok(());
    }
    let ray = spec.ray.get_or_insert_default();
    ray.token.clear();
    if !ray.no_token {
        ray.token = random_hex(TOKEN_BYTES)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use wharf_proto::Ray;

    use super::*;

    fn spec(ray: Ray) -> JobSpec {
        JobSpec { launcher: Launcher::Ray.into(), ray: Some(ray), ..JobSpec::default() }
    }

    #[test]
    fn tokens_are_the_heads_and_only_for_ray() {
        let mut own = spec(Ray { token: "chosen".into(), ..Ray::default() });
        give_token(&mut own).unwrap();
        assert_eq!(own.ray.unwrap().token.len(), 2 * TOKEN_BYTES);
        let mut open = spec(Ray { no_token: true, token: "chosen".into(), ..Ray::default() });
        give_token(&mut open).unwrap();
        assert_eq!(open.ray.unwrap().token, "");
        let mut other = JobSpec::default();
        give_token(&mut other).unwrap();
        assert_eq!(other.ray, None);
    }
}
