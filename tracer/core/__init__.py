"""Tracing itself: arguments in, a function run on proxies, its operators and errors out."""
