"""How a jail is started and ended: bubblewrap, user ids, system call filter, warden and its socket."""
