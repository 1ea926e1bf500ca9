// Replace the changing part of the page by what the service sends.
const source = new EventSource("/events");
source.onmessage = (event) => {
  document.getElementById("live").innerHTML = event.data;
};
