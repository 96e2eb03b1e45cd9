// Runs before the page is drawn, so that it never shows the other colours first.
try {
  const theme = JSON.parse(localStorage.getItem("kvasir.settings") ?? "{}").theme;
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* without storage, or with something else in it: the system's colours */ }
