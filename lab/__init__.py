"""What tries, measures, shows and releases the product, and is not shipped: sandbox, benchmarks, release."""
