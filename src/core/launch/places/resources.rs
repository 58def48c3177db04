//! What the resource manager tells a job of itself, by the variables of Slurm, PBS, LSF and Flux.

use crate::params::Environment;

const JOB_ID: [&str; 4] = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"];

/// Of Slurm, in seconds since 1970; the others do not tell.
const END_TIME: &str = "SLURM_JOB_END_TIME";

/// Finds the id of the job; what could not be part of a path is replaced.
pub(crate) fn job_id(environment: &Environment) -> Option<String> {
    let found = JOB_ID.iter().find_map(|name| environment.get(*name));
    let clean = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
    let id: String = found?.trim_start_matches('.').chars().map(clean).collect();
    (!id.is_empty()).then_some(id)
}

pub(crate) fn end_time(environment: &Environment) -> Option<u64> {
    environment.get(END_TIME)?.trim().parse().ok().filter(|seconds| *seconds > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn the_job_has_the_id_that_its_resource_manager_gave_it() {
        let id = |name: &str, value: &str| job_id(&variables(&[(name, value)]));
        assert_eq!(id("SLURM_JOB_ID", "4711").as_deref(), Some("4711"));
        assert_eq!(id("PBS_JOBID", "12[3].head").as_deref(), Some("12_3_.head"));
        assert_eq!(id("LSB_JOBID", "../x").as_deref(), Some("_x"));
        assert_eq!(id("FLUX_JOB_ID", ""), None);
        assert_eq!(id("HOME", "/root"), None);
    }

    #[test]
    fn the_end_of_the_allocation_is_a_number_or_unknown() {
        let end = |value: &str| end_time(&variables(&[("SLURM_JOB_END_TIME", value)]));
        assert_eq!(end("1298944800"), Some(1_298_944_800));
        assert_eq!((end("tomorrow"), end("0"), end_time(&variables(&[]))), (None, None, None));
    }
}
