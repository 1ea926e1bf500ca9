// Replace the changing part of the page by what the service sends, and say so if it sends nothing.
const source = new EventSource("/events");
source.onmessage = (event) => {
  document.getElementById("live").innerHTML = event.data;
  document.getElementById("lost").hidden = true;
};
source.onerror = () => {
  document.getElementById("lost").hidden = false;
};
