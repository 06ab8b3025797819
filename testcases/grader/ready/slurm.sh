#!/usr/bin/env bash
#SBATCH --job-name=grade
#SBATCH --array=1-16
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --mem=8G
#SBATCH --time=04:00:00
# Grades a class on a cluster, in 16 parts. In the folder of the course, which all nodes share, as are submissions/ and
# marks/; bubblewrap must be on the nodes. Once:
#   make setup && mkdir -p marks && (umask 077 && openssl rand -hex 16 > marks/secret.key)
# Then:
#   job=$(sbatch --parsable testcases/grader/ready/slurm.sh)
#   sbatch --dependency="afterok:$job" --wrap='make merge OUT=marks SUBMISSIONS=submissions'
# A part that was stopped goes on: sbatch --array=3 testcases/grader/ready/slurm.sh
set -euo pipefail
parts=16
cd "${SLURM_SUBMIT_DIR:?expected to be started by sbatch}"
exec make check SUBMISSIONS=submissions OUT=marks ASSIGNMENT=assignment.toml \
  SHARD="${SLURM_ARRAY_TASK_ID:?}/$parts" JOBS="${SLURM_CPUS_PER_TASK:-1}"
