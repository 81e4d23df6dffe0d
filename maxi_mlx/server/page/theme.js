// Runs before anything is drawn, so that nobody who chose the dark sees a flash of light.
{
  const chosen = localStorage.getItem("maxi-mlx.theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}
