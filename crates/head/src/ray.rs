//! What a job says of the Ray cluster on its gang, and the token that the cluster is given.

use wharf_proto::{JobSpec, Launcher};
use wharf_tls::{RandomError, random_hex};

use crate::check::{CheckError, Problem, check_path, check_text, wrong};

/// Long enough that nobody guesses it.
const TOKEN_BYTES: usize = 32;

/// Makes the token of a job's own Ray cluster: whoever does not have it cannot use the cluster, although its ports are open.
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

/// What a Ray cluster is told, where there is one.
pub(crate) fn check(spec: &JobSpec) -> Result<(), CheckError> {
    let Some(ray) = &spec.ray else { return Ok(()) };
    if spec.launcher() != Launcher::Ray {
        return wrong("ray", Problem::Besides("another launcher than `ray`"));
    }
    check_text("ray.program", &ray.program)?;
    check_text("ray.dashboard_host", &ray.dashboard_host)?;
    check_path("ray.temp_dir", &ray.temp_dir)?;
    for (field, words) in [("ray.head_args", &ray.head_args), ("ray.worker_args", &ray.worker_args)] {
        words.iter().try_for_each(|word| check_text(field, word))?;
    }
    let seconds = ray.ready_timeout_s;
    if !seconds.is_finite() || seconds < 0.0 {
        return wrong("ray.ready_timeout", Problem::NotAnAmount(seconds.to_string()));
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

    #[test]
    fn what_ray_cannot_be_told_is_refused() {
        let said = |spec: &JobSpec| check(spec).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(said(&spec(Ray { temp_dir: "/tmp".into(), ..Ray::default() })), "");
        let rows = [
            (
                spec(Ray { temp_dir: "here".into(), ..Ray::default() }),
                "ray.temp_dir: `here` is not an absolute path; begin it with `/`",
            ),
            (
                spec(Ray { ready_timeout_s: -1.0, ..Ray::default() }),
                "ray.ready_timeout: -1 is not a number from 0 on",
            ),
            (
                JobSpec { ray: Some(Ray::default()), ..JobSpec::default() },
                "ray: cannot be given together with another launcher than `ray`; leave one of them out",
            ),
        ];
        for (spec, expected) in rows {
            assert_eq!(said(&spec), expected);
        }
    }
}
