// Runs before anything is drawn, so that nobody who chose the dark sees a flash of light.
try {
  const chosen = localStorage.getItem("maxi-mlx.theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch {
  // This browser keeps nothing for pages.
}
