#compdef kt
# Completion of kt for zsh. Needs kt on the PATH.
# In ~/.zshrc, after compinit:  source /path/to/completions/kt.zsh
eval "$(kt completion --shell zsh)"
