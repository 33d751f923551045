"""Before and after, compared so that a third party can check it."""
