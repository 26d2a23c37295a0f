document.getElementById("theme").addEventListener("click", theme.toggle);
