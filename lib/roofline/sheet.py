"""Every number of a machine on one page: value, kind, source, rivals, and which the course uses."""
