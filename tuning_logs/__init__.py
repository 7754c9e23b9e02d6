"""The tuning logs that come with the package; README.md describes their lines."""
