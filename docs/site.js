// What the theme leaves out for those who use a keyboard or a screen reader.
new MutationObserver(() => {
  document.querySelectorAll("pre > code:not([tabindex])").forEach((code) => (code.tabIndex = 0));
  document.querySelectorAll(".md-code__nav:not([role])").forEach((nav) => {
    nav.setAttribute("role", "presentation");
  });
  // Parts of a page's own table of contents may have the names of parts of the site.
  document.querySelectorAll(".md-nav--secondary .md-nav:not([role])").forEach((nav) => {
    nav.setAttribute("role", "presentation");
    nav.removeAttribute("aria-label");
  });
  document.querySelector(".md-search:not([aria-label])")?.setAttribute("aria-label", "Search");
}).observe(document.documentElement, { childList: true, subtree: true });
