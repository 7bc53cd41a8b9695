"""When things happen: loops whose loads run ahead of what consumes them."""
