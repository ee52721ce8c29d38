/* Linked with one room's whole library and with what the room may use. An undefined symbol is a call that the table of
 * docs/ARCHITECTURE.md does not allow. */
int main(void) { return 0; }
