"""The wall: bubblewrap, limits, users, the course as a worker sees it, and how to ask a worker."""
