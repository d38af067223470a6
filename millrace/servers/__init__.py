"""The servers of a stack, each the real thing as a process of this machine, each describing itself."""
