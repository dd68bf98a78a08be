"""The class: one JupyterHub for a room, its accounts, its service. README.md says how."""
