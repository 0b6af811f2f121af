# Completion of kt for fish. Needs kt on the PATH.
# Copy to ~/.config/fish/completions/.
kt completion --shell fish | source
