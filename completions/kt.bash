# Completion of kt for bash. Needs kt on the PATH.
# In ~/.bashrc:  source /path/to/completions/kt.bash
eval "$(kt completion --shell bash)"
